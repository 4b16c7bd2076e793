FROM HOST/debian:12-slim
ADD http://WEB/file.txt /web/
ADD http://WEB/file.txt /web/renamed
ADD git://GIT/x/y.git#v1 /src
ADD git://GIT/x/y.git#v1:sub /only
