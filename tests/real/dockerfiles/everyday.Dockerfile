FROM HOST/python:3.11-slim AS build
ARG DEBIAN_FRONTEND=noninteractive
RUN set -eux; \
    savedPath="$PATH"; \
    if [ -d /usr/lib ]; then echo found > /found; fi; \
    ( cd /tmp && touch inner ); rm /tmp/inner
RUN python3 -m venv --without-pip /venv && rm -rf /venv/lib/python3.11/site-packages/*
COPY src /venv/lib/python3.11/site-packages/app

FROM HOST/python:3.11-slim
LABEL maintainer="A B" version='1.0'
ENV VIRTUAL_ENV=/venv PATH="/venv/bin:$PATH"
EXPOSE 8080/tcp
VOLUME /data
STOPSIGNAL SIGINT
COPY --from=build /venv /venv
COPY --from=build /found /
WORKDIR /app
COPY . .
HEALTHCHECK CMD true
RUN which python > /which
ENTRYPOINT ["python"]
CMD ["train.py"]
