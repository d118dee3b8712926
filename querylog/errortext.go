package querylog

// errorTemplates returns the message templates of a server error, one per line, "" for none. %i is a name and
// is kept, %f several names in backticks and punctuation, %c a clause of a statement, %d a number, and %v
// anything else, which is masked.
//
// A text that matches none of its number's templates is masked whole, so a server with another format loses
// the text and never exposes a value.
func errorTemplates(number uint16) string {
	switch number {
	case 1040:
		return "Too many connections"
	case 1044:
		return "Access denied for user '%v'@'%v' to database '%i'"
	case 1045:
		return "Access denied for user '%v'@'%v' (using password: %i)"
	case 1046:
		return "No database selected"
	case 1048:
		return "Column '%i' cannot be null"
	case 1049:
		return "Unknown database '%i'"
	case 1050:
		return "Table '%i' already exists"
	case 1051:
		return "Unknown table '%i'"
	case 1052:
		return "Column '%i' in %c is ambiguous"
	case 1053:
		return "Server shutdown in progress"
	case 1054:
		return "Unknown column '%i' in '%c'"
	case 1060:
		return "Duplicate column name '%v'" // in a derived table a literal names its column
	case 1061:
		return "Duplicate key name '%i'"
	case 1062:
		return "Duplicate entry '%v' for key '%i'"
	case 1064:
		return "You have an error in your SQL syntax; check the manual that corresponds to your %v for the right syntax to use near '%v' at line %d"
	case 1065:
		return "Query was empty"
	case 1091:
		return "Can't DROP '%i'; check that column/key exists\nCan't DROP %f; check that it exists"
	case 1100:
		return "Table '%i' was not locked with LOCK TABLES"
	case 1136:
		return "Column count doesn't match value count at row %d"
	case 1142:
		return "%i command denied to user '%v'@'%v' for table %f"
	case 1146:
		return "Table '%i' doesn't exist"
	case 1205:
		return "Lock wait timeout exceeded; try restarting transaction"
	case 1213:
		return "Deadlock found when trying to get lock; try restarting transaction"
	case 1222:
		return "The used SELECT statements have a different number of columns"
	case 1241:
		return "Operand should contain %d column(s)"
	case 1242:
		return "Subquery returns more than 1 row"
	case 1264:
		return "Out of range value for column '%i' at row %d"
	case 1265:
		return "Data truncated for column '%i' at row %d"
	case 1292, 1366, 1411:
		return "Truncated incorrect %i value: '%v'\nIncorrect %i value: '%v' for column %f at row %d\nIncorrect %i value: '%v'"
	case 1305:
		return "%i %i does not exist"
	case 1317:
		return "Query execution was interrupted"
	case 1364:
		return "Field '%i' doesn't have a default value"
	case 1365:
		return "Division by 0"
	case 1406:
		return "Data too long for column '%i' at row %d"
	case 1451:
		return "Cannot delete or update a parent row: a foreign key constraint fails (%f)"
	case 1452:
		return "Cannot add or update a child row: a foreign key constraint fails (%f)"
	case 1690:
		return "%c value is out of range in '%v'"
	case 1792:
		return "Cannot execute statement in a READ ONLY transaction\nCannot execute statement in a READ ONLY transaction."
	case 1927:
		return "Connection was killed"
	case 1969:
		return "Query execution was interrupted (max_statement_time exceeded)"
	case 3024:
		return "Query execution was interrupted, maximum statement execution time exceeded"
	case 3819:
		return "Check constraint '%i' is violated."
	case 4025:
		return "CONSTRAINT %f failed for %f"
	}
	return ""
}

// clause reports whether b names a clause or type in one of the servers' messages.
func clause(b []byte) bool {
	switch string(b) {
	case "field list", "where clause", "on clause", "order clause", "group statement", "having clause", "SELECT", "WHERE", "ON", "ORDER BY", "GROUP BY", "HAVING",
		"INSERT INTO", "UPDATE", "BIGINT", "BIGINT UNSIGNED", "DOUBLE", "DECIMAL", "INT", "INT UNSIGNED":
		return true
	}
	return false
}
