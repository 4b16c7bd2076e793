"""Who signed a file, and is it still the one that was recorded?"""
