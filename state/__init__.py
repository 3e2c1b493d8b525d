"""The store. The only package that knows SQL; it speaks in records and typed errors."""
