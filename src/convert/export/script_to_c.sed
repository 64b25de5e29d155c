# SPDX-License-Identifier: Apache-2.0
# flamegraph.js as a string of C.
s/[\\"]/\\&/g
s/^/"/
s/$/\\n"/
1i static const char flamegraph_script[] =
$a ;
