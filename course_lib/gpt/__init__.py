"""The GPT that the course ends with: the model, Shakespeare's text, training that can be stopped, and generation with a KV cache."""

from course_lib.gpt.checkpoints import CheckpointError, load_checkpoint, save_checkpoint
from course_lib.gpt.generation import PlainCache, generate, stream
from course_lib.gpt.live import LiveCurve
from course_lib.gpt.model import ATTENTIONS, GPT, Attend
from course_lib.gpt.text import PROMPT, Text, load_text
from course_lib.gpt.training import LAPTOP, LAPTOP_RUN, SERVER, SERVER_RUN, Run, evaluate, fit, train

__all__ = [
    "ATTENTIONS",
    "GPT",
    "LAPTOP",
    "LAPTOP_RUN",
    "PROMPT",
    "SERVER",
    "SERVER_RUN",
    "Attend",
    "CheckpointError",
    "LiveCurve",
    "PlainCache",
    "Run",
    "Text",
    "evaluate",
    "fit",
    "generate",
    "load_checkpoint",
    "load_text",
    "save_checkpoint",
    "stream",
    "train",
]
