/* Calls the functions of runtime.h for values. */
#include <string.h>

#include "checks.h"

static void use_tensors(void) {
  const int64_t dims[] = {2, 3}, negative[] = {-1};
  float data[7] = {0, 1, 2, 3, 4, 5, 6};
  kilter_tensor_info info;
  kilter_value* value = NULL;
  SUCCEEDS(RIGHT(kilter_value_tensor)(KILTER_F32, 2, dims, data, &value));
  SUCCEEDS(RIGHT(kilter_value_info)(value, &info));
  CHECK(info.rank == 2 && info.dims[1] == 3 && info.bytes == 24 && *info.name == 0);
  CHECK(RIGHT(kilter_value_data)(value) == data && RIGHT(kilter_value_kind)(value) == KILTER_TENSOR);
  FAILS(NULLS(kilter_value_info)(value, NULL), KILTER_ERROR_USAGE, "argument 'info' is a null pointer");
  FAILS(NULLS(kilter_value_info)(NULL, &info), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  RIGHT(kilter_value_free)(value);
  SUCCEEDS(kilter_value_tensor(KILTER_F32, 1, dims, (char*)data + 1, &value)); /* not aligned: copied */
  CHECK(kilter_value_data(value) != (char*)data + 1);
  kilter_value_free(value);
  FAILS(WRONG(kilter_value_tensor)(KILTER_F32, 65, dims, data, &value), KILTER_ERROR_USAGE,
        "rank 65; legal values are 0 to 64");
  FAILS(WRONG(kilter_value_tensor)(KILTER_F32, 1, negative, data, &value), KILTER_ERROR_USAGE,
        "a tensor of shape -1; expected dimensions of 0 or more and at most 2^40 elements");
  FAILS(WRONG(kilter_value_tensor)((kilter_dtype)99, 2, dims, data, &value), KILTER_ERROR_USAGE,
        "element type 99 of kilter_value_tensor(); legal values are 0 (KILTER_F32) to 23 (KILTER_U2) without 13 "
        "(KILTER_STRING), for which there is kilter_value_strings()");
  FAILS(NULLS(kilter_value_tensor)(KILTER_F32, 1, NULL, data, &value), KILTER_ERROR_USAGE,
        "argument 'dims' is a null pointer");
  FAILS(NULLS(kilter_value_tensor)(KILTER_F32, 2, dims, NULL, &value), KILTER_ERROR_USAGE,
        "argument 'data' is a null pointer");
  FAILS(NULLS(kilter_value_tensor)(KILTER_F32, 2, dims, data, NULL), KILTER_ERROR_USAGE,
        "argument 'value' is a null pointer");
  CHECK(value == NULL);
  NULLS(kilter_value_free)(NULL);
  CHECK(NULLS(kilter_value_data)(NULL) == NULL && NULLS(kilter_value_kind)(NULL) == KILTER_ABSENT);
}

static void use_strings(void) {
  const char* const texts[] = {"one", "two\0and", NULL};
  const size_t lengths[] = {3, 7};
  const int64_t two = 2, three = 3;
  const char* text = NULL;
  size_t length = 0;
  kilter_value* value = NULL;
  SUCCEEDS(RIGHT(kilter_value_strings)(1, &two, texts, lengths, &value));
  SUCCEEDS(RIGHT(kilter_value_string)(value, 1, &text, &length));
  CHECK(length == 7 && memcmp(text, "two\0and", 8) == 0);
  CHECK(kilter_value_data(value) == NULL);
  FAILS(WRONG(kilter_value_string)(value, 2, &text, NULL), KILTER_ERROR_USAGE,
        "string 2 was requested; the tensor has 2");
  FAILS(NULLS(kilter_value_string)(value, 0, NULL, NULL), KILTER_ERROR_USAGE, "argument 'text' is a null pointer");
  FAILS(NULLS(kilter_value_string)(NULL, 0, &text, NULL), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  kilter_value_free(value);
  FAILS(NULLS(kilter_value_strings)(1, &three, texts, NULL, &value), KILTER_ERROR_USAGE,
        "argument 'texts[i]' is a null pointer");
  FAILS(NULLS(kilter_value_strings)(1, &two, NULL, NULL, &value), KILTER_ERROR_USAGE,
        "argument 'texts' is a null pointer");
  FAILS(WRONG(kilter_value_strings)(100, &two, texts, NULL, &value), KILTER_ERROR_USAGE,
        "rank 100; legal values are 0 to 64");
  FAILS(NULLS(kilter_value_strings)(1, &two, texts, NULL, NULL), KILTER_ERROR_USAGE,
        "argument 'value' is a null pointer");
}

/* Passes strings, a sequence and an absent value through program.kilter. */
static void use_sequences(void) {
  const char* const texts[] = {"a"};
  const int64_t one = 1;
  const float number = 5;
  kilter_program* program = NULL;
  kilter_instance* instance = NULL;
  kilter_profile* profile = NULL;
  kilter_tensor_info info;
  kilter_value *strings = NULL, *tensor = NULL, *list = NULL, *element = NULL;
  kilter_value* outputs[3] = {NULL, NULL, NULL};
  const kilter_value* inputs[3] = {NULL, NULL, NULL};
  SUCCEEDS(kilter_value_strings(1, &one, texts, NULL, &strings));
  SUCCEEDS(kilter_value_tensor(KILTER_F32, 1, &one, &number, &tensor));
  SUCCEEDS(RIGHT(kilter_value_sequence)((const kilter_value* const*)&tensor, 1, &list));
  CHECK(RIGHT(kilter_value_count)(list) == 1 && NULLS(kilter_value_count)(NULL) == 0);
  CHECK(kilter_value_kind(list) == KILTER_SEQUENCE && kilter_value_count(tensor) == 0);
  FAILS(WRONG(kilter_value_info)(list, &info), KILTER_ERROR_USAGE,
        "the value is sequence of 1 (f32[1]), expected a tensor");
  inputs[0] = strings, inputs[1] = list;
  SUCCEEDS(kilter_program_load(file_in_folder("program.kilter"), &program));
  SUCCEEDS(kilter_instance_create(program, 1, &instance));
  SUCCEEDS(kilter_instance_run_values(instance, inputs, 3, outputs, 3));
  SUCCEEDS(RIGHT(kilter_value_element)(outputs[1], 0, &element));
  CHECK(*(const float*)kilter_value_data(element) == 5.0f);
  CHECK(kilter_value_kind(outputs[2]) == KILTER_ABSENT);
  SUCCEEDS(kilter_instance_profile(instance, inputs, 3, 2, &profile));
  CHECK(kilter_profile_count(profile) == 0 && kilter_profile_run_ms(profile) > 0);
  kilter_profile_free(profile);
  kilter_value_free(element);
  FAILS(WRONG(kilter_value_element)(list, 1, &element), KILTER_ERROR_USAGE,
        "element 1 was requested; the sequence has 1");
  FAILS(WRONG(kilter_value_element)(tensor, 0, &element), KILTER_ERROR_USAGE,
        "the value is f32[1], expected a sequence");
  FAILS(NULLS(kilter_value_element)(NULL, 0, &element), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  FAILS(NULLS(kilter_value_element)(list, 0, NULL), KILTER_ERROR_USAGE, "argument 'element' is a null pointer");
  FAILS(NULLS(kilter_value_sequence)(NULL, 1, &element), KILTER_ERROR_USAGE,
        "argument 'elements' is a null pointer");
  FAILS(NULLS(kilter_value_sequence)(NULL, 0, NULL), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  {
    kilter_value* odd = NULL;
    const kilter_value* mixed[] = {tensor, strings};
    if (WRONG(kilter_value_sequence)(mixed, 2, &odd) == KILTER_OK) CHECK(kilter_value_count(odd) == 2);
    kilter_value_free(odd);
    mixed[1] = NULL;
    FAILS(WRONG(kilter_value_sequence)(mixed, 2, &odd), KILTER_ERROR_USAGE,
          "element 1 of the sequence is absent; expected a value");
  }
  kilter_value_free(outputs[0]);
  kilter_value_free(outputs[1]);
  kilter_value_free(outputs[2]);
  kilter_value_free(list);
  kilter_value_free(tensor);
  kilter_value_free(strings);
  kilter_instance_free(instance);
  kilter_program_free(program);
}

static void use_map_parts(kilter_value* map, kilter_value* tensor) {
  kilter_value *keys = NULL, *elements = NULL, *none = NULL;
  const char* text = NULL;
  CHECK(kilter_value_kind(map) == KILTER_MAP && kilter_value_count(map) == 2 && kilter_value_data(map) == NULL);
  SUCCEEDS(RIGHT(kilter_value_map_keys)(map, &keys));
  SUCCEEDS(RIGHT(kilter_value_map_elements)(map, &elements));
  SUCCEEDS(kilter_value_string(keys, 0, &text, NULL));
  CHECK(strcmp(text, "cat") == 0);
  CHECK(((const float*)kilter_value_data(elements))[0] == 2.0f && ((const float*)kilter_value_data(elements))[1] == 1.0f);
  FAILS(kilter_value_element(map, 0, &none), KILTER_ERROR_USAGE,
        "the value is map of 2 from str to f32, expected a sequence");
  FAILS(WRONG(kilter_value_map_keys)(tensor, &none), KILTER_ERROR_USAGE, "the value is f32[2], expected a map");
  FAILS(WRONG(kilter_value_map_elements)(keys, &none), KILTER_ERROR_USAGE, "the value is str[2], expected a map");
  FAILS(NULLS(kilter_value_map_keys)(NULL, &none), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  FAILS(NULLS(kilter_value_map_keys)(map, NULL), KILTER_ERROR_USAGE, "argument 'keys' is a null pointer");
  FAILS(NULLS(kilter_value_map_elements)(map, NULL), KILTER_ERROR_USAGE, "argument 'elements' is a null pointer");
  kilter_value_free(keys);
  kilter_value_free(elements);
}

static void use_map_ports(kilter_program* program) {
  kilter_kind kind;
  kilter_dtype key;
  kilter_tensor_info info;
  int optional = 7;
  SUCCEEDS(kilter_program_input_kind(program, 0, &kind, &optional));
  CHECK(kind == KILTER_MAP && optional == 0);
  SUCCEEDS(kilter_program_output_kind(program, 1, &kind, &optional));
  CHECK(kind == KILTER_SEQUENCE);
  SUCCEEDS(kilter_program_input(program, 0, &info));
  CHECK(info.dtype == KILTER_F32);
  SUCCEEDS(RIGHT(kilter_program_input_key)(program, 0, &key));
  CHECK(key == KILTER_STRING);
  SUCCEEDS(RIGHT(kilter_program_output_key)(program, 1, &key));
  CHECK(key == KILTER_I64);
  FAILS(WRONG(kilter_program_input_key)(program, 2, &key), KILTER_ERROR_USAGE,
        "input 2 was requested; the program has 2");
  FAILS(WRONG(kilter_program_output_key)(program, 2, &key), KILTER_ERROR_USAGE,
        "output 2 was requested; the program has 2");
  FAILS(NULLS(kilter_program_input_key)(NULL, 0, &key), KILTER_ERROR_USAGE, "argument 'program' is a null pointer");
  FAILS(NULLS(kilter_program_output_key)(program, 0, NULL), KILTER_ERROR_USAGE, "argument 'key' is a null pointer");
}

/* Passes a map and a sequence of maps through maps.kilter. */
static void use_maps(void) {
  const char* const texts[] = {"dog", "cat"};
  const float numbers[] = {1, 2};
  const int64_t two = 2, ids[] = {7, 7};
  kilter_program* program = NULL;
  kilter_instance* instance = NULL;
  kilter_value *keys = NULL, *tensor = NULL, *equal = NULL, *map = NULL, *by_id = NULL, *rows = NULL, *none = NULL;
  kilter_value* outputs[2] = {NULL, NULL};
  const kilter_value* inputs[2];
  SUCCEEDS(kilter_value_strings(1, &two, texts, NULL, &keys));
  SUCCEEDS(kilter_value_tensor(KILTER_F32, 1, &two, numbers, &tensor));
  SUCCEEDS(kilter_value_tensor(KILTER_I64, 1, &two, ids, &equal));
  SUCCEEDS(RIGHT(kilter_value_map)(keys, tensor, &map));
  FAILS(WRONG(kilter_value_map)(tensor, tensor, &none), KILTER_ERROR_BAD_INPUT,
        "a map has keys f32[2] and values f32[2]; expected one dimension of the same size, and keys of i64 or str");
  FAILS(WRONG(kilter_value_map)(equal, tensor, &none), KILTER_ERROR_BAD_INPUT, "a map has the key 7 twice");
  FAILS(WRONG(kilter_value_map)(map, tensor, &none), KILTER_ERROR_USAGE,
        "a map of map of 2 from str to f32, expected tensors of keys and elements");
  FAILS(NULLS(kilter_value_map)(NULL, tensor, &none), KILTER_ERROR_USAGE, "argument 'keys' is a null pointer");
  FAILS(NULLS(kilter_value_map)(keys, NULL, &none), KILTER_ERROR_USAGE, "argument 'elements' is a null pointer");
  FAILS(NULLS(kilter_value_map)(keys, tensor, NULL), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  use_map_parts(map, tensor);
  SUCCEEDS(kilter_program_load(file_in_folder("maps.kilter"), &program));
  use_map_ports(program);
  SUCCEEDS(kilter_instance_create(program, 1, &instance));
  {
    const int64_t one = 1, id = 9;
    kilter_value *key = NULL, *number = NULL;
    SUCCEEDS(kilter_value_tensor(KILTER_I64, 1, &one, &id, &key));
    SUCCEEDS(kilter_value_tensor(KILTER_F32, 1, &one, numbers, &number));
    SUCCEEDS(kilter_value_map(key, number, &by_id));
    SUCCEEDS(kilter_value_sequence((const kilter_value* const*)&by_id, 1, &rows));
    inputs[0] = map, inputs[1] = rows;
    SUCCEEDS(kilter_instance_run_values(instance, inputs, 2, outputs, 2));
    use_map_parts(outputs[0], tensor);
    CHECK(kilter_value_kind(outputs[1]) == KILTER_SEQUENCE && kilter_value_count(outputs[1]) == 1);
    inputs[0] = by_id;
    MENTIONS(kilter_instance_run_values(instance, inputs, 2, &none, 1), KILTER_ERROR_BAD_INPUT, "1 outputs");
    kilter_value_free(key);
    kilter_value_free(number);
  }
  kilter_value_free(outputs[0]);
  kilter_value_free(outputs[1]);
  kilter_value_free(rows);
  kilter_value_free(by_id);
  kilter_value_free(map);
  kilter_value_free(equal);
  kilter_value_free(tensor);
  kilter_value_free(keys);
  kilter_instance_free(instance);
  kilter_program_free(program);
}

void use_values(void) {
  use_tensors();
  use_strings();
  use_sequences();
  use_maps();
}

/* Checks the elements of a value of 6 floats, which it frees. */
static void expect_six(kilter_value* value, const float* expected) {
  CHECK(memcmp(kilter_value_data(value), expected, 6 * sizeof(float)) == 0);
  kilter_value_free(value);
}

void use_strided_values(void) {
  const float data[] = {0, 1, 2, 3, 4, 5};
  const float transposed[] = {0, 3, 1, 4, 2, 5}, reversed[] = {5, 4, 3, 2, 1, 0}, repeated[] = {2, 2, 2, 2, 2, 2};
  const int64_t dims[] = {3, 2}, turned[] = {1, 3}, back[] = {-2, -1}, still[] = {0, 0}, dense[] = {2, 1};
  const int64_t far[] = {INT64_MAX, 1}, wide[] = {4, 2}, one_dim[] = {1, 2}, any[] = {77, 1};
  float spread[12] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
  kilter_value *value = NULL, *scalar = NULL;
  SUCCEEDS(RIGHT(kilter_value_tensor_strided)(KILTER_F32, 2, dims, turned, data, &value));
  expect_six(value, transposed);
  SUCCEEDS(kilter_value_tensor_strided(KILTER_F32, 2, dims, back, data + 5, &value));
  expect_six(value, reversed);
  SUCCEEDS(kilter_value_tensor_strided(KILTER_F32, 2, dims, still, data + 2, &value));
  expect_six(value, repeated);
  SUCCEEDS(kilter_value_tensor_strided(KILTER_F32, 2, one_dim, any, data, &value));
  CHECK(kilter_value_data(value) == data); /* the stride of a dimension of size 1 does not count */
  kilter_value_free(value);
  SUCCEEDS(kilter_value_tensor_strided(KILTER_F32, 0, NULL, NULL, data + 1, &scalar));
  SUCCEEDS(RIGHT(kilter_value_copy)(scalar, 0, NULL, spread));
  CHECK(spread[0] == 1.0f);
  kilter_value_free(scalar);
  SUCCEEDS(kilter_value_tensor_strided(KILTER_F32, 2, dims, dense, data, &value));
  CHECK(kilter_value_data(value) == data);
  SUCCEEDS(RIGHT(kilter_value_copy)(value, 2, wide, spread));
  CHECK(spread[0] == 0.0f && spread[1] == 9.0f && spread[2] == 1.0f && spread[4] == 2.0f && spread[10] == 5.0f);
  FAILS(WRONG(kilter_value_copy)(value, 1, wide, spread), KILTER_ERROR_USAGE,
        "rank 1 of kilter_value_copy(); the tensor has shape 3x2, so expected 2");
  FAILS(WRONG(kilter_value_copy)(value, 2, far, spread), KILTER_ERROR_USAGE,
        "stride 9223372036854775807 of dimension 0 of a tensor of shape 3x2: elements would be more than 2^56 apart; "
        "strides are numbers of elements, not bytes");
  FAILS(NULLS(kilter_value_copy)(value, 2, NULL, NULL), KILTER_ERROR_USAGE, "argument 'data' is a null pointer");
  FAILS(NULLS(kilter_value_copy)(NULL, 2, NULL, spread), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  kilter_value_free(value);
  FAILS(WRONG(kilter_value_tensor_strided)(KILTER_STRING, 2, dims, turned, data, &value), KILTER_ERROR_USAGE,
        "element type 13 of kilter_value_tensor_strided(); legal values are 0 (KILTER_F32) to 23 (KILTER_U2) without "
        "13 (KILTER_STRING), for which there is kilter_value_strings()");
  FAILS(NULLS(kilter_value_tensor_strided)(KILTER_F32, 2, dims, turned, NULL, &value), KILTER_ERROR_USAGE,
        "argument 'data' is a null pointer");
  FAILS(NULLS(kilter_value_tensor_strided)(KILTER_F32, 2, dims, turned, data, NULL), KILTER_ERROR_USAGE,
        "argument 'value' is a null pointer");
}
