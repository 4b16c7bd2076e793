"""Commands of the heading Interactive: shell, exec, jupyter, tensorboard."""
