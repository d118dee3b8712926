package sqlplan

import "github.com/taredb/tare/mysql/sqldigest"

// builtinOn reports whether the name is a built-in function on the server: on others it may be a stored
// function, with any effect. For a server of unknown kind it has to be built in on all of them. The lists
// were determined by calling every name in builtin on MariaDB 10.11 and MySQL 9.7.
func builtinOn(name string, s sqldigest.Server) bool {
	if !builtin(name) {
		return false
	}
	switch s.Kind {
	case sqldigest.ServerMariaDB:
		return !notInMariaDB(name)
	case sqldigest.ServerMySQL:
		return !notInMySQL(name, s.Version)
	}
	return !notInMariaDB(name) && !notInMySQL(name, 0)
}

func notInMariaDB(name string) bool {
	switch name {
	case "any_value", "bin_to_uuid", "format_bytes", "format_pico_time", "geomcollection", "grouping", "gtid_subset",
		"gtid_subtract", "icu_version", "is_uuid", "json_schema_valid", "json_schema_validation_report",
		"json_storage_free", "json_storage_size", "json_table", "kdf", "mbrcoveredby", "mbrcovers", "point",
		"ps_current_thread_id", "ps_thread_id", "regexp_like", "roles_graphml", "st_buffer_strategy", "st_collect",
		"st_frechetdistance", "st_geohash", "st_hausdorffdistance", "st_isvalid", "st_latfromgeohash", "st_latitude",
		"st_lineinterpolatepoint", "st_longfromgeohash", "st_longitude", "st_makeenvelope", "st_pointatdistance",
		"st_pointfromgeohash", "st_simplify", "st_swapxy", "st_transform", "st_validate", "statement_digest",
		"statement_digest_text", "uuid_to_bin", "validate_password_strength":
		return true
	}
	return false
}

func notInMySQL(name string, version int) bool {
	switch name {
	case "md5", "sha", "sha1":
		return version >= 90000
	case "add_months", "chr", "column_add", "column_check", "column_create", "column_delete", "column_exists", "column_get",
		"column_json", "column_list", "concat_operator_oracle", "crc32c", "decode", "decode_oracle", "des_decrypt",
		"des_encrypt", "encode", "encrypt", "json_compact", "json_detailed", "json_equals", "json_exists", "json_loose",
		"json_normalize", "json_query", "kdf", "lastval", "lengthb", "median", "natural_sort_key", "nextval", "nvl",
		"nvl2", "old_password", "percentile_cont", "percentile_disc", "setval", "sformat", "sys_guid", "to_char":
		return true
	}
	return false
}
