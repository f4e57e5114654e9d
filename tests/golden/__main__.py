"""`make golden`: write the journals of the newest directory, once."""

from tests.golden.writing import directories, write

newest = directories()[-1]
write(newest)
print(f"written: {newest}")
