FROM HOST/debian:12-slim AS base
WORKDIR /app
ENV A=1
COPY src .
FROM base AS next
RUN echo $A > a; cd /; echo b > b
FROM next
COPY --from=base /app/train.py /from-base
RUN pwd > /where && exit 0
RUN umask 077; export B=2; touch private
RUN echo "[$B]" > public
