ARG TAG
FROM HOST/team/base:${TAG:-3.11} AS builder
RUN mkdir -p /out/bin /out/lib/deep && echo x > /out/bin/x && chmod 4711 /out/bin/x \
    && ln -s ../bin/x /out/lib/x && ln -s /nowhere /out/lib/gone && echo d > /out/lib/deep/d \
    && chown -R 12:34 /out/lib && chmod 1777 /out/lib/deep
RUN false || echo or > /out/or; true
FROM HOST/debian:12-slim AS middle
COPY --from=builder /out/bin/x /one
FROM middle AS unused
RUN false
FROM HOST/debian:12-slim
COPY --from=builder /out /usr/local
COPY --from=builder /out/lib /usr/local/lib
COPY --from=0 /out/lib/x /linked
COPY --from=middle /one /out-of-middle
COPY --from=builder /out/* /globbed/
COPY --from=HOST/python:3.11-slim /etc/debian_version /opt/version
COPY --from=builder --chown=daemon:12 /out/lib /new/folder
