// SPDX-License-Identifier: Apache-2.0
// Draws rows of boxes fast, also without a GPU: each row is a strip one pixel high, written into
// memory, and the canvas stretches it to the row's height. So a box costs a few bytes, whatever its
// colour, and a picture one drawing per row.

export class Strips {
	private canvas = document.createElement("canvas");
	private context = this.canvas.getContext("2d")!;
	private image: ImageData | null = null;
	private pixels = new Uint32Array(0);
	private width = 0;
	private rows = 0;

	begin(width: number, rows: number, ground: number): void {
		if (!this.image || this.width !== width || this.rows < rows) {
			this.width = this.canvas.width = width;
			this.rows = this.canvas.height = rows;
			this.image = this.context.createImageData(width, rows);
			this.pixels = new Uint32Array(this.image.data.buffer);
		}
		this.pixels.fill(ground);
	}

	box(row: number, x: number, right: number, color: number): void {
		this.pixels.fill(color, row * this.width + x, row * this.width + right);
	}

	draw(onto: CanvasRenderingContext2D, rows: number, height: number, top: (row: number) => number): void {
		this.context.putImageData(this.image!, 0, 0);
		onto.imageSmoothingEnabled = false;
		for (let row = 0; row < rows; row++) {
			onto.drawImage(this.canvas, 0, row, this.width, 1, 0, top(row), this.width, height);
		}
	}
}
