"""Which commands of RUN take or put files where they run."""

from __future__ import annotations

import pytest

from runner_convert.dockerfile.relative import takes_files

TAKE = """\
pip install -r requirements/dev.txt
python3 -m pip install -r requirements.txt
uv pip install -r requirements.txt
pip3 install -U -rreq.txt
pip install ./wheels/*.whl
poetry install
(pip install -r a.txt)
cd sub && pip install .
mkdir build && cd build && cmake ..
if [ -f a.txt ]; then pip install -r a.txt; fi
source env.sh
env A=1 bash a.sh
while read p; do pip install $p; done < requirements.txt
conda env create --file=env.yml
dpkg -i pkg.deb
mv foo /opt
tar xf a.tar.gz -C /opt
find . -name x -delete
ls > list
"""
TAKE_NOTHING = """\
pip install torch==2.1 'numpy<2' "transformers>=4"
pip install --no-cache-dir -U pip setuptools wheel
pip install git+https://example.org/x/y.git@main
pip download torch -d /wheels
cd /opt && pip install -r r.txt
conda install -y python=3.10
rm -rf /var/lib/apt/lists/*
git clone https://example.org/y /opt/y
tar -xf /tmp/a.tar -C /opt
wget -qO- https://example.org | tar xz -C /opt
curl https://example.org -sSf | sh -s -- -y
chmod -R 777 /data
ln -sf /usr/bin/python3 /usr/bin/python
sed -i 's/x/y/' /etc/a
echo 'a' >> /etc/profile
useradd -u 1000 -g x y
locale-gen en_US.UTF-8
update-alternatives --install /usr/bin/gcc gcc /usr/bin/gcc-12 1
python3 -m venv /opt/venv
python -c 'print(1)'
"""


@pytest.mark.parametrize("text", [*TAKE.splitlines()])
def test_a_command_that_takes_files_there(text: str) -> None:
    assert takes_files(text)


@pytest.mark.parametrize("text", [*TAKE_NOTHING.splitlines()])
def test_a_command_that_does_not(text: str) -> None:
    assert not takes_files(text)
