// SPDX-License-Identifier: Apache-2.0
// As answering.c, with what C++ programs allocate.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<bool> stop, wrong;

struct alignas(64) Line {
	int number[16];
};

static void work(int rounds)
{
	std::map<std::string, std::vector<int>> kept;
	auto lines = std::make_unique<Line[]>(10);

	for (int i = 0; i < rounds; i++) {
		std::string key = "a key that is too long to be in the string itself " + std::to_string(i % 50);
		std::vector<int> &numbers = kept[key];

		for (int number : numbers)
			if (number != i % 50)
				wrong = true;
		if (numbers.size() > 40)
			kept.erase(key);
		else
			numbers.push_back(i % 50);
		lines[i % 10].number[i % 16] = i;
		auto one = std::make_shared<std::string>(key + key);
		if (one->compare(0, key.size(), key))
			wrong = true;
	}
}

static void load()
{
	while (!stop) {
		work(100);
		usleep(2000);
	}
}

static void fork_one()
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		work(1000);
		_exit(wrong ? 1 : 7);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		wrong = true;
}

static void answer(const std::string &line)
{
	if (line == "alive") {
		puts("alive");
	} else if (line == "work") {
		work(20000);
		puts("worked");
	} else if (line == "fork") {
		fork_one();
		puts("forked");
	} else {
		execl("/proc/self/exe", "answering_cxx", nullptr);
		puts("no exec");
	}
	fflush(stdout);
}

int main()
{
	std::vector<std::thread> threads;
	char line[64];

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	setbuf(stdin, nullptr);
	for (int i = 0; i < 4; i++)
		threads.emplace_back(load);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		answer(std::string(line, strcspn(line, "\n")));
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	puts(wrong ? "wrong" : "good");
	return 23;
}
