package sqlplan

// builtin reports whether a lower-case name is a function of MySQL 8.4 or MariaDB 10.11 without effects
// beyond its Effect bits. Sources: the function indexes of both reference manuals. A missing name only makes
// its callers count as writers.
func builtin(name string) bool {
	switch name {
	// Aggregates and window functions.
	case "any_value", "avg", "bit_and", "bit_or", "bit_xor", "count", "cume_dist", "dense_rank",
		"first_value", "group_concat", "grouping", "json_arrayagg", "json_objectagg", "lag", "last_value",
		"lead", "max", "median", "min", "nth_value", "ntile", "percent_rank", "percentile_cont",
		"percentile_disc", "rank", "row_number", "std", "stddev", "stddev_pop", "stddev_samp", "sum",
		"var_pop", "var_samp", "variance":
		return true
	// Control flow, comparison, conversion.
	case "cast", "coalesce", "convert", "decode_oracle", "default", "greatest", "if", "ifnull", "interval",
		"isnull", "least", "nullif", "nvl", "nvl2", "values", "value", "binary", "char", "strcmp":
		return true
	// Numbers.
	case "abs", "acos", "asin", "atan", "atan2", "bit_count", "ceil", "ceiling", "conv", "cos", "cot",
		"crc32", "crc32c", "degrees", "div", "exp", "floor", "format", "ln", "log", "log10", "log2", "mod",
		"oct", "pi", "pow", "power", "radians", "rand", "round", "sign", "sin", "sqrt", "tan", "truncate":
		return true
	// Strings.
	case "ascii", "bin", "bit_length", "char_length", "character_length", "chr", "collation", "charset",
		"coercibility", "concat", "concat_ws", "concat_operator_oracle", "elt", "export_set", "field",
		"find_in_set", "from_base64", "hex", "insert", "instr", "lcase", "left", "length", "lengthb",
		"locate", "lower", "lpad", "ltrim", "make_set", "mid", "natural_sort_key", "octet_length", "ord",
		"position", "quote", "regexp_instr", "regexp_like", "regexp_replace", "regexp_substr", "repeat",
		"replace", "reverse", "right", "rpad", "rtrim", "sformat", "soundex", "space", "substr",
		"substring", "substring_index", "to_base64", "to_char", "trim", "ucase", "unhex", "upper",
		"weight_string", "like", "match", "extractvalue", "updatexml":
		return true
	// Dates and times.
	case "add_months", "adddate", "addtime", "convert_tz", "curdate", "current_date", "current_time",
		"current_timestamp", "curtime", "date", "date_add", "date_format", "date_sub", "datediff", "day",
		"dayname", "dayofmonth", "dayofweek", "dayofyear", "extract", "from_days", "from_unixtime",
		"get_format", "hour", "last_day", "localtime", "localtimestamp", "makedate", "maketime",
		"microsecond", "minute", "month", "monthname", "now", "period_add", "period_diff", "quarter",
		"sec_to_time", "second", "str_to_date", "subdate", "subtime", "sysdate", "time", "time_format",
		"time_to_sec", "timediff", "timestamp", "timestampadd", "timestampdiff", "to_days", "to_seconds",
		"unix_timestamp", "utc_date", "utc_time", "utc_timestamp", "week", "weekday", "weekofyear", "year",
		"yearweek":
		return true
	// Hashes, compression, encryption, identifiers.
	case "aes_decrypt", "aes_encrypt", "compress", "decode", "des_decrypt", "des_encrypt", "encode",
		"encrypt", "kdf", "md5", "old_password", "password", "random_bytes", "sha", "sha1", "sha2",
		"statement_digest", "statement_digest_text", "uncompress", "uncompressed_length",
		"validate_password_strength", "bin_to_uuid", "is_uuid", "sys_guid", "uuid", "uuid_short", "uuid_to_bin":
		return true
	// Information about the session and the server.
	case "benchmark", "connection_id", "current_role", "current_user", "database", "found_rows", "icu_version",
		"last_insert_id", "name_const", "ps_current_thread_id", "ps_thread_id", "format_bytes",
		"format_pico_time", "roles_graphml", "row_count", "schema", "session_user", "sleep", "system_user",
		"user", "version", "lastval", "inet_aton", "inet_ntoa", "inet6_aton", "inet6_ntoa", "is_ipv4",
		"is_ipv4_compat", "is_ipv4_mapped", "is_ipv6", "gtid_subset", "gtid_subtract", "is_free_lock",
		"is_used_lock", "load_file":
		return true
	// Functions with an Effect bit.
	case "get_lock", "release_lock", "release_all_locks", "nextval", "setval":
		return true
	// JSON.
	case "json_array", "json_array_append", "json_array_insert", "json_compact", "json_contains",
		"json_contains_path", "json_depth", "json_detailed", "json_equals", "json_exists", "json_extract",
		"json_insert", "json_keys", "json_length", "json_loose", "json_merge", "json_merge_patch",
		"json_merge_preserve", "json_normalize", "json_object", "json_overlaps", "json_pretty", "json_query",
		"json_quote", "json_remove", "json_replace", "json_schema_valid", "json_schema_validation_report",
		"json_search", "json_set", "json_storage_free", "json_storage_size", "json_table", "json_type",
		"json_unquote", "json_valid", "json_value", "column_add", "column_check", "column_create",
		"column_delete", "column_exists", "column_get", "column_json", "column_list":
		return true
	// Geometry.
	case "geomcollection", "geometrycollection", "linestring", "mbrcontains", "mbrcoveredby", "mbrcovers",
		"mbrdisjoint", "mbrequals", "mbrintersects", "mbroverlaps", "mbrtouches", "mbrwithin",
		"multilinestring", "multipoint", "multipolygon", "point", "polygon", "st_area", "st_asbinary",
		"st_asgeojson", "st_astext", "st_aswkb", "st_aswkt", "st_buffer", "st_buffer_strategy",
		"st_centroid", "st_collect", "st_contains", "st_convexhull", "st_crosses", "st_difference",
		"st_dimension", "st_disjoint", "st_distance", "st_distance_sphere", "st_endpoint", "st_envelope",
		"st_equals", "st_exteriorring", "st_frechetdistance", "st_geohash", "st_geomcollfromtext",
		"st_geomcollfromwkb", "st_geometryfromtext", "st_geometryfromwkb", "st_geometryn",
		"st_geometrytype", "st_geomfromgeojson", "st_geomfromtext", "st_geomfromwkb",
		"st_hausdorffdistance", "st_interiorringn", "st_intersection", "st_intersects", "st_isclosed",
		"st_isempty", "st_issimple", "st_isvalid", "st_latfromgeohash", "st_latitude", "st_length",
		"st_linefromtext", "st_linefromwkb", "st_lineinterpolatepoint", "st_longfromgeohash",
		"st_longitude", "st_makeenvelope", "st_mlinefromtext", "st_mpointfromtext", "st_mpolyfromtext",
		"st_numgeometries", "st_numinteriorrings", "st_numpoints", "st_overlaps", "st_pointatdistance",
		"st_pointfromgeohash", "st_pointfromtext", "st_pointfromwkb", "st_pointn", "st_polyfromtext",
		"st_polyfromwkb", "st_simplify", "st_srid", "st_startpoint", "st_swapxy", "st_symdifference",
		"st_touches", "st_transform", "st_union", "st_validate", "st_within", "st_x", "st_y":
		return true
	}
	return false
}
