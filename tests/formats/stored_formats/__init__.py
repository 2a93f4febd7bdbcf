"""What each stored format looks like: samples that releases have stored, and what they mean.

A sample is a file that the product itself has made. It is made once, by ``write_samples.py``, and
stays as it is for ever: a later version of its format has samples of its own.
"""
