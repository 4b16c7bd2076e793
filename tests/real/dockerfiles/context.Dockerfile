FROM HOST/debian:12-slim
WORKDIR /app
COPY data /app
COPY src/train.py /app
COPY . /all/
RUN echo changed > /all/data/two && ls /all
COPY data/two /all/data
COPY ["data/two", "top-link", "one file.txt", "/several/"]
COPY dat? /globbed
COPY .dot* tool /tools/
COPY --chmod=600 src /private
COPY data ./relative/
RUN ls -la /app/train.py /app/relative
