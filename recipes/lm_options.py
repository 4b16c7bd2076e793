"""The options of the language models, whoever exchanges their gradients."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from recipes import options
from recipes.errors import UserError


def parser(name: str, about: str, not_here: Mapping[str, str]) -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    mapped = {"workers": "tokens are read through a memory map"}
    parser = options.Parser(name, about, {**mapped, **not_here})
    options.add_common(parser, epochs=3, batch_size=16, base_lr=0.001, warmup=1)
    add = parser.add_argument
    # The model: about half a million weights with the defaults.
    add("--context", type=options.positive_int, default=64, help="tokens that it sees at once")
    add("--width", type=options.positive_int, default=128, help="of the vector for a token")
    add("--heads", type=options.positive_int, default=4, help="of attention, per block")
    add("--blocks", type=options.positive_int, default=2, help="of attention and network")
    add("--vocabulary", type=options.positive_int, help="its size, if meta.json does not tell")
    return parser


def checked(args: Namespace) -> Namespace:
    """Return the settings; raise `UserError` for what does not go together."""
    if args.width % args.heads:
        raise UserError(f"--width {args.width} is no multiple of --heads {args.heads}")
    return args
