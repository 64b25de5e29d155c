/* SPDX-License-Identifier: Apache-2.0 */
/* Field numbers of OpenTelemetry's profiles, opentelemetry/proto/profiles/v1development/profiles.proto,
 * collector/profiles/v1development, common/v1 and resource/v1 of opentelemetry-proto 1.10 to 1.11. */
#ifndef MAYFLY_OTLP_FIELDS_H
#define MAYFLY_OTLP_FIELDS_H

enum { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY = 2 }; /* ProfilesData has the same */
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES = 2 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { VALUE_STRING = 1, VALUE_INT = 3, VALUE_DOUBLE = 4 };

enum { /* ProfilesDictionary */
       DICTIONARY_MAPPING = 1,
       DICTIONARY_LOCATION = 2,
       DICTIONARY_FUNCTION = 3,
       DICTIONARY_LINK = 4,
       DICTIONARY_STRING = 5,
       DICTIONARY_ATTRIBUTE = 6,
       DICTIONARY_STACK = 7,
};
enum { /* Profile */
       OTLP_PROFILE_SAMPLE_TYPE = 1,
       OTLP_PROFILE_SAMPLES = 2,
       OTLP_PROFILE_TIME = 3,
       OTLP_PROFILE_DURATION = 4,
       OTLP_PROFILE_PERIOD_TYPE = 5,
       OTLP_PROFILE_PERIOD = 6,
       OTLP_PROFILE_ATTRIBUTES = 11,
};
enum { OTLP_TYPE_TYPE = 1, OTLP_TYPE_UNIT = 2 };
enum { OTLP_SAMPLE_STACK = 1, OTLP_SAMPLE_ATTRIBUTES = 2, OTLP_SAMPLE_VALUES = 4 };
enum { /* Mapping */
       OTLP_MAPPING_START = 1,
       OTLP_MAPPING_LIMIT = 2,
       OTLP_MAPPING_FILENAME = 4,
       OTLP_MAPPING_ATTRIBUTES = 5,
};
enum { STACK_LOCATIONS = 1 };
enum { OTLP_LOCATION_MAPPING = 1, OTLP_LOCATION_ADDRESS = 2, OTLP_LOCATION_LINES = 3 };
enum { OTLP_LINE_FUNCTION = 1, OTLP_LINE_LINE = 2 };
enum { OTLP_FUNCTION_NAME = 1, OTLP_FUNCTION_FILENAME = 3 };
enum { LINK_TRACE_ID = 1, LINK_TRACE_ID_BYTES = 16, LINK_SPAN_ID = 2, LINK_SPAN_ID_BYTES = 8 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE = 2, ATTRIBUTE_UNIT = 3 };

#endif
