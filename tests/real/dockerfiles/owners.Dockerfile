FROM HOST/debian:12-slim
RUN useradd --uid 1234 --create-home ann && groupadd --gid 4321 team
COPY --chown=ann:team data /home/ann/new/data
COPY --chown=55 src/train.py /srv/55
COPY --chown=ann --chmod=750 src /srv/ann
RUN chown -R ann /srv/ann && rm /home/ann/.bashrc
USER root
RUN echo $HOME > /home-of-root
