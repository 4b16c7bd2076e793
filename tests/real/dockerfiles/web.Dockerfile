FROM HOST/debian:12-slim
ADD http://WEB/file.txt /web/
ADD http://WEB/file.txt /web/renamed
ADD http://WEB/cgi-bin/git/x/y.git#v1 /src
ADD http://WEB/cgi-bin/git/x/y.git#v1:sub /only
