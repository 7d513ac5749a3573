"""python -m course_lib.publish.web [FOLDER]"""

import subprocess
import sys
from pathlib import Path

from course_lib.publish import web

if __name__ == "__main__":
    try:
        web.fetch(*map(Path, sys.argv[1:2]))
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
