"""python -m course_lib.web"""

import subprocess
import sys

from course_lib import web

if __name__ == "__main__":
    try:
        web.fetch()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
