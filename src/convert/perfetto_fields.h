/* SPDX-License-Identifier: Apache-2.0 */
/* Field numbers and values of Perfetto's messages, from protos/perfetto/trace. */
#ifndef MAYFLY_PERFETTO_FIELDS_H
#define MAYFLY_PERFETTO_FIELDS_H

enum { TRACE_PACKET = 1 };
enum { /* TracePacket */
       PACKET_CLOCKS = 6,
       PACKET_TIME = 8,
       PACKET_SEQUENCE = 10,
       PACKET_TRACK_EVENT = 11,
       PACKET_INTERNED = 12,
       PACKET_FLAGS = 13,
       PACKET_PROFILE = 37,
       PACKET_TRACK = 60,
};
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { SNAPSHOT_CLOCK = 1, CLOCK_ID = 1, CLOCK_TIME = 2 };
enum { REALTIME = 1, MONOTONIC = 3, MONOTONIC_COARSE = 4, BOOTTIME = 6 };
enum { /* TrackDescriptor */
       TRACK_UUID = 1,
       TRACK_NAME = 2,
       TRACK_OF_PROCESS = 3,
       TRACK_OF_THREAD = 4,
       TRACK_PARENT = 5,
       TRACK_OF_COUNTER = 8,
};
enum { PROCESS_PID = 1, PROCESS_COMMAND = 2, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, COUNTER_UNIT_NAME = 6 };
enum { UNIT_NS = 1, UNIT_COUNT = 2, UNIT_BYTES = 3 };
enum { /* TrackEvent */
       EVENT_CATEGORY_IID = 3,
       EVENT_ANNOTATION = 4,
       EVENT_TYPE = 9,
       EVENT_NAME_IID = 10,
       EVENT_TRACK = 11,
       EVENT_CATEGORY = 22,
       EVENT_NAME = 23,
       EVENT_COUNTER = 30,
       EVENT_DOUBLE_COUNTER = 44,
       EVENT_FLOW = 47,
       EVENT_LAST_FLOW = 48,
       EVENT_STACK = 56,
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum {
	ANNOTATION_NAME_IID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UNSIGNED = 3,
	ANNOTATION_SIGNED = 4,
	ANNOTATION_DOUBLE = 5,
	ANNOTATION_TEXT = 6,
	ANNOTATION_POINTER = 7,
	ANNOTATION_NAME = 10,
	ANNOTATION_DICT = 11,
};
enum { PROFILE_DUMPS = 5, PROFILE_CONTINUED = 6, PROFILE_INDEX = 7 };
enum { /* ProcessHeapSamples */
       DUMP_PID = 1,
       DUMP_SAMPLE = 2,
       DUMP_FROM_STARTUP = 3,
       DUMP_TIME = 9,
       DUMP_HEAP = 11,
       DUMP_INTERVAL = 12,
       DUMP_FIRST_INTERVAL = 13,
};
enum {
	SAMPLE_STACK = 1,
	SAMPLE_ALLOCATED = 2,
	SAMPLE_FREED = 3,
	SAMPLE_ALLOCS = 5,
	SAMPLE_FREES = 6,
	SAMPLE_MAX = 8
};
enum { /* InternedData */
       DATA_CATEGORIES = 1,
       DATA_EVENT_NAMES = 2,
       DATA_ANNOTATION_NAMES = 3,
       DATA_FUNCTION_NAMES = 5,
       DATA_FRAMES = 6,
       DATA_CALLSTACKS = 7,
       DATA_BUILD_IDS = 16,
       DATA_MAPPING_PATHS = 17,
       DATA_SOURCE_PATHS = 18,
       DATA_MAPPINGS = 19,
};
enum { /* InternedString */ STRING_IID = 1, STRING_STR = 2 };
enum { /* Mapping */
       MAPPING_IID = 1,
       MAPPING_BUILD_ID = 2,
       MAPPING_START = 4,
       MAPPING_END = 5,
       MAPPING_LOAD_BIAS = 6,
       MAPPING_PATH = 7,
       MAPPING_OFFSET = 8,
};
enum { /* Frame */
       FRAME_IID = 1,
       FRAME_FUNCTION = 2,
       FRAME_MAPPING = 3,
       FRAME_PC = 4,
       FRAME_SOURCE = 5,
       FRAME_LINE = 6,
};
enum { CALLSTACK_IID = 1, CALLSTACK_FRAMES = 2 };

#endif
