// SPDX-License-Identifier: Apache-2.0
// Stands for the rows of a table that are not drawn. A row without a cell would have no height. The
// cell is in the first column alone: a cell over more columns than there are would add some, which
// take their share of the width.

export function Space({ height }: { height: number }) {
	if (height <= 0) return null;
	return (
		<tr class="space" aria-hidden="true">
			<td style={{ height: `${height}px`, padding: 0 }} />
		</tr>
	);
}
