# The course in a container: Python, CPU PyTorch, Triton's interpreter, a user without rights.
#   docker build --build-arg TORCH_INDEX=<the CPU index that PyTorch's install page names> -t flash-attention-course .
#   docker run --rm -p 127.0.0.1:8888:8888 -v flash-attention-work:/course/work flash-attention-course
# The volume keeps the student's own copy of the lectures.
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

# A compiler for the C++ rung of lecture 15, make for the commands of the README, bubblewrap for grading: any version of Debian's will do.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap g++ make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 student \
    && install --directory --owner=student /course /course/work

USER 1000
WORKDIR /course
COPY --chown=1000 . .
ARG TORCH_INDEX=
RUN PIP_NO_CACHE_DIR=1 make setup TORCH_INDEX="$TORCH_INDEX"

EXPOSE 8888
CMD ["make", "lab", "LAB_FLAGS=--ip=0.0.0.0 --no-browser"]
