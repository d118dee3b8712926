package pool

import (
	"maps"
	"slices"
)

// A variable is a session variable whose value can be set on another connection.
type variable struct {
	scoped bool // SET @@name without a scope is about the next transaction only
	off    bool // only if it is switched off
}

// movable are the session variables that a plain SET of which can be repeated on another connection: they decide how statements are
// executed, and no statement changes or uses up their values.
var movable = map[string]variable{
	"autocommit": {}, "auto_increment_increment": {}, "auto_increment_offset": {}, "big_tables": {}, "bulk_insert_buffer_size": {},
	"character_set_client": {}, "character_set_connection": {}, "character_set_results": {}, "collation_connection": {},
	"cte_max_recursion_depth": {}, "default_storage_engine": {}, "default_tmp_storage_engine": {}, "default_week_format": {},
	"div_precision_increment": {}, "end_markers_in_json": {}, "eq_range_index_dive_limit": {}, "foreign_key_checks": {},
	"group_concat_max_len": {}, "idle_transaction_timeout": {}, "information_schema_stats_expiry": {}, "innodb_lock_wait_timeout": {},
	"innodb_strict_mode": {}, "interactive_timeout": {}, "join_buffer_size": {}, "lc_messages": {}, "lc_time_names": {},
	"lock_wait_timeout": {}, "long_query_time": {}, "low_priority_updates": {}, "max_execution_time": {}, "max_heap_table_size": {},
	"max_join_size": {}, "max_length_for_sort_data": {}, "max_points_in_geometry": {}, "max_recursive_iterations": {},
	"max_seeks_for_key": {}, "max_sort_length": {}, "max_sp_recursion_depth": {}, "max_statement_time": {}, "min_examined_row_limit": {},
	"net_read_timeout": {}, "net_retry_count": {}, "net_write_timeout": {}, "optimizer_prune_level": {}, "optimizer_search_depth": {},
	"optimizer_switch": {}, "optimizer_use_condition_selectivity": {}, "preload_buffer_size": {}, "range_alloc_block_size": {},
	"range_optimizer_max_mem_size": {}, "read_buffer_size": {}, "read_rnd_buffer_size": {}, "regexp_stack_limit": {}, "regexp_time_limit": {},
	"sort_buffer_size": {}, "sql_auto_is_null": {off: true}, "sql_big_selects": {}, "sql_buffer_result": {}, "sql_mode": {},
	"sql_notes": {}, "sql_quote_show_create": {}, "sql_safe_updates": {}, "sql_select_limit": {}, "sql_warnings": {}, "time_zone": {},
	"tmp_memory_table_size": {}, "tmp_table_size": {}, "transaction_isolation": {scoped: true}, "transaction_read_only": {scoped: true},
	"tx_isolation": {scoped: true}, "tx_read_only": {scoped: true}, "unique_checks": {}, "updatable_views_with_limit": {}, "wait_timeout": {},
	"windowing_use_high_precision": {},
}

// Variables returns the names of the session variables that a plain SET of which moves with the session, in order.
func Variables() []string { return slices.Sorted(maps.Keys(movable)) }
