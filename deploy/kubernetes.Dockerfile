# The course's image with a server that JupyterHub can start. Build both in the folder that `make student DIR=folder` wrote:
#   docker build -t flash-attention-course .
#   docker build -t flash-attention-course-hub -f deploy/kubernetes.Dockerfile .
ARG COURSE=flash-attention-course:latest
FROM ${COURSE}
RUN .venv/bin/python -m pip install --no-cache-dir --require-hashes --no-deps -r deploy/requirements-hub.lock
CMD [".venv/bin/jupyterhub-singleuser", "--ip=0.0.0.0"]
