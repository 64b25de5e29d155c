/* SPDX-License-Identifier: Apache-2.0 */
/* Java methods that call one another, the innermost of which has the virtual machine call malloc. */
import java.nio.ByteBuffer;

public class JavaChain {
	static final ByteBuffer[] kept = new ByteBuffer[256];
	static int count;

	static void f3(int i) {
		kept[count++ & 255] = ByteBuffer.allocateDirect(2000 + i % 100);
	}

	static void f2(int i) {
		f3(i);
	}

	static void f1(int i) {
		f2(i);
	}

	static void f0(int i) {
		f1(i);
	}

	public static void main(String[] arguments) {
		for (int i = 0; i < 40000; i++)
			f0(i);
	}
}
