FROM HOST/debian:12-slim
ARG NAME=v1.2.3-rc
ARG EMPTY
ENV PLACE=/opt/place FILE=name.tar.gz
ENV OLD form with spaces
WORKDIR ${PLACE}/$NAME
WORKDIR sub
COPY src/train.py ${EMPTY:-/fallback}/
COPY src/train.py ${PLACE:+/set}/
COPY src/train.py /front/${FILE#*.}/
COPY src/train.py /back/${FILE%%.*}/
COPY src/train.py /changed/${FILE//a/o}/
COPY ["src/train.py", "/quoted $FILE/"]
COPY src/train.py /plain/\$FILE/
RUN echo "$OLD $PLACE ${NAME} ${EMPTY-unset}" > /seen; pwd >> /seen
ENV PATH=/opt/a:$PATH
ENV PATH=/opt/b:$PATH
RUN echo "$PATH" > /path
