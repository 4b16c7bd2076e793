"""Edits for Keras 3, the default of TensorFlow from 2.16 on, and for both Kerases in one image."""

from __future__ import annotations

from pathlib import Path

from containers.horovod.edit import Edit, NewFile

KERAS3 = "Keras 3's optimizers have no method that Horovod overrode: every rank trained alone"
VARIABLES = "Keras 3 wraps TensorFlow's variables, which alone have ref() and can be exchanged"
APPLY = (
    "under Keras 2 only `fit` averaged: gradients that a loop of one's own gave to apply_gradients"
    " were applied as they were, and every rank trained alone"
)
TWICE = "gradients that a DistributedGradientTape averaged are not averaged again"
CALLBACKS = "callbacks for models of either Keras, whichever the module imported"
JSON = "metrics were NumPy's numbers, which JSON refuses"

UTIL, TENSORFLOW = "horovod/tensorflow/util.py", "horovod/tensorflow/__init__.py"
FUNCTIONS = "horovod/tensorflow/functions.py"
OPTIMIZER, CALLBACK = "horovod/_keras/__init__.py", "horovod/_keras/callbacks.py"

HELPERS = '''

def unwrapped(variable):
    """Returns the variable of TensorFlow in one of Keras 3, and any other as it is."""
    return variable if hasattr(variable, 'ref') else variable.value


def mark_reduced(grads):
    """Marks gradients that are reduced over the ranks, and returns them."""
    for grad in grads:
        if grad is not None:
            grad._horovod_reduced = True
    return grads


def are_reduced(grads):
    """Returns true if all these gradients are marked as reduced."""
    return all(grad is None or hasattr(grad, '_horovod_reduced') for grad in grads)
'''
GRADIENT = "            gradients = super(self.__class__, self).gradient(target, sources, output_"
DEREF = "    return refs.deref()\n"
IN_TENSORFLOW = (
    Edit(UTIL, DEREF, DEREF + HELPERS, VARIABLES),
    Edit(
        TENSORFLOW,
        "_cache, vars_to_refs, refs_to_vars\n",
        "_cache, vars_to_refs, refs_to_vars, unwrapped, mark_reduced\n",
        VARIABLES,
    ),
    Edit(
        TENSORFLOW,
        GRADIENT,
        f"            sources = [unwrapped(source) for source in sources]\n{GRADIENT}",
        VARIABLES,
    ),
    Edit(
        TENSORFLOW,
        "return [s2g[s.ref()] for s in sources]",
        "return mark_reduced([s2g[s.ref()] for s in sources])",
        TWICE,
    ),
    Edit(TENSORFLOW, "add(source.ref())", "add(unwrapped(source).ref())", VARIABLES),
    Edit(TENSORFLOW, "= s.ref() in self", "= unwrapped(s).ref() in self", VARIABLES),
    Edit(
        FUNCTIONS,
        "import _cache, _executing_eagerly, _make_subgraph\n",
        "import _cache, _executing_eagerly, _make_subgraph, unwrapped\n",
        VARIABLES,
    ),
    Edit(
        FUNCTIONS,
        "    if inplace:\n",
        "    variables = [unwrapped(variable) for variable in variables]\n    if inplace:\n",
        VARIABLES,
    ),
    *(
        Edit(
            file,
            f"isinstance({layer}, tf.keras.layers.Layer)",
            f"hasattr({layer}, 'trainable_weights')",
            "the other Keras has layers too",
        )
        for file in (TENSORFLOW, "horovod/keras/__init__.py")
        for layer in ("local_layers", "layer")
    ),
)

CREATE = "    class _DistributedOptimizer(*optimizer"
NEW_OPTIMIZER = """\
    if both.is_keras_3(optimizer):
        return keras3.distributed(
            optimizer, name, device_dense=device_dense, device_sparse=device_sparse,
            compression=compression, sparse_as_dense=sparse_as_dense, op=op,
            gradient_predivide_factor=gradient_predivide_factor, groups=groups,
            process_set=process_set, scale_local_gradients=scale_local_gradients,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients)

"""
AGGREGATE = """\
                return aggregated_grads
            elif hasattr(base_class, '_aggregate_gradients'):
"""
REDUCE = """\
                return aggregated_grads
            grads_and_vars = list(grads_and_vars)
            # Those of minimize() and of the helper are reduced before.
            if not self._aggregated_gradients and not self._agg_helper:
                grads, vars = zip(*grads_and_vars)
                if not are_reduced(grads):
                    grads_and_vars = list(zip(self._allreduce(grads, vars), vars))
            if hasattr(base_class, '_aggregate_gradients'):
"""
OTHER_NAME = "        def _allreduce(self, grads, vars):\n"
ALIAS = """\
        def aggregate_gradients(self, grads_and_vars):
            return self._aggregate_gradients(grads_and_vars)

"""
MADE = "            self._aggregated_gradients = False\n"
MAKES = f"{MADE}            self._first_step = both.FirstStep(self._name, process_set)\n"
REDUCES = "            self._aggregated_gradients = True\n"
EQUALIZES = """\
            self._first_step.equalize([var for var in vars if var.ref() not in self._local_vars])
"""
FIRST_STEP = "without the callback the ranks kept the weights that each had begun with"
HELPER_APPLIES = "                results = self._agg_helper.apply_gradients(\n"
HELPER_REDUCES = """\
                if not self._aggregated_gradients:
                    grads, vars = zip(*args[0])
                    args = (list(zip(self._allreduce(grads, vars), vars)), *args[1:])

"""
APPLIED = "            return results\n\n    # We dynamically"
LOAD = "    if legacy_opts:\n        keras_subclasses"
NEW_LOAD = """\
    if int(getattr(keras, '__version__', '2').partition('.')[0]) > 2:
        return keras3.load_model(keras, wrap_optimizer, filepath, custom_objects)

"""
OPTIMIZERS: tuple[Edit | NewFile, ...] = (
    *(
        NewFile(
            f"horovod/_keras/{name}.py",
            Path(__file__).with_name(source).read_text(encoding="utf-8"),
            KERAS3,
        )
        for name, source in (("both", "both_kerases.py"), ("keras3", "keras3.py"))
    ),
    Edit(
        OPTIMIZER,
        "from horovod.tensorflow.mpi_ops import rank, size_op\n",
        "from horovod.tensorflow.mpi_ops import rank, size_op\n"
        "from horovod.tensorflow.util import are_reduced\n"
        "from horovod._keras import both, keras3\n",
        KERAS3,
    ),
    Edit(OPTIMIZER, CREATE, NEW_OPTIMIZER + CREATE, KERAS3),
    Edit(OPTIMIZER, AGGREGATE, REDUCE, APPLY),
    Edit(OPTIMIZER, OTHER_NAME, ALIAS + OTHER_NAME, APPLY),
    Edit(OPTIMIZER, MADE, MAKES, FIRST_STEP),
    Edit(OPTIMIZER, REDUCES, REDUCES + EQUALIZES, FIRST_STEP),
    Edit(OPTIMIZER, HELPER_APPLIES, HELPER_REDUCES + HELPER_APPLIES, APPLY),
    Edit(OPTIMIZER, APPLIED, f"            self._aggregated_gradients = False\n{APPLIED}", APPLY),
    Edit(OPTIMIZER, LOAD, NEW_LOAD + LOAD, KERAS3),
)

RATE = "self.backend.get_value(self.model.optimizer.lr)"
BROADCAST = """\
        with tf.device(self.device):
            if hvd._executing"""
BEFORE_THE_FIRST_BATCH = """\
    def on_train_begin(self, logs=None):
        # Keras 3 has built the model and its optimizer before.
        if both.is_keras_3(self.model.optimizer) and self.model.built:
            self.on_batch_end(0)

"""
BATCH_END = "    def on_batch_end(self, batch, logs=None):\n        if self.broadcast_done"
CALLBACK_EDITS = (
    Edit(
        CALLBACK,
        "import horovod.tensorflow as hvd\n",
        "import horovod.tensorflow as hvd\nfrom horovod._keras import both\n",
        CALLBACKS,
    ),
    *(
        Edit(
            CALLBACK,
            f"{name}CallbackImpl(object)",
            f"{name}CallbackImpl(both.OfBothKeras)",
            CALLBACKS,
        )
        for name in ("BroadcastGlobalVariables", "MetricAverage", "LearningRateSchedule")
    ),
    Edit(CALLBACK, "add(var.ref())", "add(both.unwrapped(var).ref())", VARIABLES),
    Edit(
        CALLBACK,
        "var in self.model.variables if",
        "var in both.variables_of(self.model) if",
        VARIABLES,
    ),
    Edit(
        CALLBACK,
        "hvd.broadcast_variables(self.model.optimizer.variables(),",
        "hvd.broadcast_variables(both.variables_of(self.model.optimizer),",
        VARIABLES,
    ),
    Edit(
        CALLBACK,
        BATCH_END,
        BEFORE_THE_FIRST_BATCH + BATCH_END,
        "the first step too is one of equal weights",
    ),
    Edit(
        CALLBACK,
        "hvd.allreduce(self.backend.constant(value, name=metric)).numpy()",
        "hvd.allreduce(tf.cast(value, tf.float32)).numpy().tolist()",
        f"{CALLBACKS}; {JSON}",
    ),
    Edit(CALLBACK, RATE, "both.rate_of(self.model.optimizer, self.backend)", CALLBACKS, count=4),
    Edit(
        CALLBACK,
        "self.backend.set_value(self.model.optimizer.lr, new_lr)",
        "both.set_rate(self.model.optimizer, self.backend, new_lr)",
        CALLBACKS,
    ),
    Edit(
        CALLBACK,
        "if hasattr(self.model.optimizer, 'momentum') and self.momentum_correction:",
        "if self.momentum_correction and both.can_correct(self.model.optimizer):",
        "in optimizers since Keras 2.11 momentum is a number: the callback crashed",
    ),
    *(
        edit
        for package in ("horovod/keras", "horovod/tensorflow/keras")
        for edit in (
            Edit(
                f"{package}/callbacks.py",
                "elif isinstance(local_variables, tf.Variable):",
                "elif not isinstance(local_variables, (list, tuple, set)):",
                VARIABLES,
            ),
            Edit(
                f"{package}/callbacks.py",
                "not all(isinstance(var, tf.Variable) for",
                "not all(hasattr(var, 'assign') for",
                VARIABLES,
            ),
        )
    ),
)
EDITS = (*IN_TENSORFLOW, *OPTIMIZERS, *CALLBACK_EDITS)
