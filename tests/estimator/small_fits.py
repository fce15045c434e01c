"""Settings of small fits."""

# One shape of program for (nearly) all tests of the classifier.
SMALL = dict(dim=8, members=1, batch_size=16, sampled=8, mined=3, input_dropout=0.0,
             learning_rate=1.0, schedule="constant",
             settings={"steps_per_dispatch": 2, "class_init": "random"})  # fmt: skip
