FROM HOST/debian:12-slim AS one
RUN echo from-one > /file
FROM HOST/debian:12-slim
WORKDIR /app
RUN mkdir /cache-there && echo kept > /cache-there/kept
RUN --mount=type=bind,source=src/train.py,target=/tmp/train.py cat /tmp/train.py > /seen
RUN --mount=type=bind,from=one,source=/file,target=/tmp/file cat /tmp/file >> /seen
RUN --mount=type=cache,target=/cache-there echo cached > /cache-there/cached
RUN --mount=type=tmpfs,target=/tmp/scratch echo x > /tmp/scratch/x
