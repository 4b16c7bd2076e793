"""Remedies, as values: those of containers/, which has them too."""

from __future__ import annotations

from containers.remedy import ADVICE as ADVICE
from containers.remedy import COMMAND as COMMAND
from containers.remedy import LAUNCH as LAUNCH
from containers.remedy import Remedy as Remedy
from containers.remedy import Value as Value
from containers.remedy import advice as advice
from containers.remedy import argument_words as argument_words
from containers.remedy import change as change
from containers.remedy import command as command
from containers.remedy import line as line
from containers.remedy import option_words as option_words
from containers.remedy import together as together
