"""A folder of images by class, as ImageNet's: `train/CLASS/FILE`, `val/CLASS/FILE`."""

PARTS = TRAIN, VAL = ("train", "val")
SUFFIXES = (".jpeg", ".jpg", ".png")
