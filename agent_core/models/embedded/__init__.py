"""The model that needs no key and no network: llama.cpp in a child process, weights from a package."""
