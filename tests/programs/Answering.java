// SPDX-License-Identifier: Apache-2.0
// As answering.c, in Java: fork starts another program, and there is no exec.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Answering {
	static volatile boolean stop, wrong;

	static void work(int rounds) throws Exception {
		byte[] text = "a text that is compressed, and read again ".repeat(20).getBytes();

		for (int i = 0; i < rounds; i++) {
			ByteBuffer direct = ByteBuffer.allocateDirect(1000 + i);
			Deflater deflater = new Deflater();
			Inflater inflater = new Inflater();
			byte[] small = new byte[2000], again = new byte[text.length];

			for (int k = 0; k < direct.capacity(); k++)
				direct.put(k, (byte) i);
			deflater.setInput(text);
			deflater.finish();
			inflater.setInput(small, 0, deflater.deflate(small));
			if (inflater.inflate(again) != text.length || !java.util.Arrays.equals(text, again)
					|| direct.get(i) != (byte) i)
				wrong = true;
			deflater.end();
			inflater.end();
		}
	}

	static void load() {
		try {
			while (!stop) {
				work(5);
				Thread.sleep(3);
			}
		} catch (Exception e) {
			wrong = true;
		}
	}

	public static void main(String[] arguments) throws Exception {
		BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
		List<Thread> threads = new ArrayList<>();

		for (int i = 0; i < 3; i++) {
			threads.add(new Thread(Answering::load));
			threads.get(i).start();
		}
		System.out.println("ready");
		for (String line = input.readLine(); line != null; line = input.readLine()) {
			if (line.equals("work"))
				work(500);
			else if (line.equals("fork") && new ProcessBuilder("/bin/sh", "-c", "exit 7").start().waitFor() != 7)
				wrong = true;
			System.out.println(line.equals("work") ? "worked" : line.equals("fork") ? "forked" : "alive");
		}
		stop = true;
		for (Thread thread : threads)
			thread.join();
		System.out.println(wrong ? "wrong" : "good");
		System.exit(23);
	}
}
