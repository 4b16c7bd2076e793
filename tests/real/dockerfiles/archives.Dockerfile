FROM HOST/debian:12-slim
RUN mkdir -p /into/data && echo old > /into/data/two && echo kept > /into/data/kept
ADD packed.tar.gz /into
ADD looks-like.bin /other/
ADD src /src/
COPY packed.tar.gz /copied.tar.gz
