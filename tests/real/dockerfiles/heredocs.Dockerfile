# syntax=docker/dockerfile:1
FROM HOST/debian:12-slim
ARG WORD=beep
ENV SEEN="$WORD and ${WORD:-no} ${NONE:-default}" abc=hello
ENV abc=bye def=$abc ghi=\$abc
RUN cat > /etc/x.conf <<END
%post is not a section here
  %files neither
bootstrap: not a stage
{{ braces }} stay # {{ and }} here
END
RUN <<END
  false
  for word in a b; do
    echo "$word $def $ghi" >> /letters
  done
END
RUN python3 - <<END
print("%s" %
"python", file=open("/python", "w"))
END
COPY <<one <<"two" /texts/
seen: $SEEN
%runscript is text
one
seen: $SEEN {{ x }}
two
COPY <<-END /dedented
	tabs are gone
	END
RUN echo $((1<<2)) > /four \
    # a comment between

    && echo 'it''s' >> /four
RUN ["/bin/sh", "-c", "echo listed \"$0\" > /listed", "{{ zero }}"]
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN [[ -n $BASH_VERSION ]] && echo ${BASH_VERSION:+bash} > /bash
