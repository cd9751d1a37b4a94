"""Does the work, commits it and says so: `done`.

done.py [FILE [TEXT]]
"""

import sys

from kit import done, work

work(*sys.argv[1:3])
done()
