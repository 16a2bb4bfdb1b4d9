"""What smolvlm, as it lies here, says in conversations with two pictures, by transformers' own processor and model.

    python converse.py

Words are drawn until every token of a reply leads by 0.05 at the least.
"""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.models.smolvlm import processing_smolvlm

HERE = Path(__file__).parent
beside = spec_from_file_location("make_seeing", HERE / "make.py")  # which imports another make.py
making = module_from_spec(beside)
beside.loader.exec_module(making)
FOLDER = HERE / "smolvlm"
FIRST, SECOND = "image.png", "other.png"
REPLY = 6  # tokens
WORDS = ["what", "is", "this", "that", "picture", "of", "a", "cat", "the", "same", "as", "before", "and", "now"]


def says(model, processor, pictures, turns):
    """@param turns of the user and of the model, in turn; what ends in .png is a picture"""
    part = lambda what: dict(type="image") if what.endswith(".png") else dict(type="text", text=what)  # noqa: E731
    roles = ("user", "assistant")
    messages = [dict(role=roles[i % 2], content=[part(what) for what in turn]) for i, turn in enumerate(turns)]
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True)
    images = [pictures[what] for turn in turns for what in turn if what.endswith(".png")]
    given = processor(text=prompt, images=images, return_tensors="pt")
    with making.Float64(), torch.no_grad():
        tokens, leads = making.greedy_of(model, given["input_ids"], given["pixel_values"][0].double(), REPLY)
    return dict(turns=turns, prompt=given["input_ids"][0].tolist(), reply=tokens), min(leads)


def main():
    processing_smolvlm.num2words = str  # which writes numbers of a video's frames
    processor = AutoProcessor.from_pretrained(FOLDER)
    model = AutoModelForImageTextToText.from_pretrained(FOLDER, dtype=torch.float64, attn_implementation="eager").eval().double()
    random = np.random.default_rng(7)
    colours = random.integers(0, 256, (5, 3, 3)).astype(np.uint8)
    Image.fromarray(colours.repeat(12, 0).repeat(12, 1)).save(FOLDER / SECOND)
    pictures = {name: Image.open(FOLDER / name) for name in (FIRST, SECOND)}
    words = lambda: " ".join(random.choice(WORDS, 3))  # noqa: E731
    shapes = [
        lambda: [[FIRST, words(), SECOND]],
        lambda: [[SECOND, words(), FIRST]],
        lambda: [[FIRST, words()], [words()], [words()]],
        lambda: [[FIRST, words()], [words()], [words(), SECOND]],
        lambda: [[words(), SECOND, SECOND]],
    ]
    conversations, leads = [], []
    for shape in shapes:
        while True:
            said, least = says(model, processor, pictures, shape())
            if least >= making.MARGIN and len(said["reply"]) == REPLY and max(said["reply"]) < 314:
                break
        conversations.append(said)
        leads.append(least)
    golden = dict(least_margin=round(min(leads), 4), conversations=conversations)
    (FOLDER / "conversations.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
