"""How Kestrel's embedded voice is made. Needs the ``training`` extra; nothing here is imported by the product."""
