// Package tabledef describes the tables of a copy: which rows and columns of a source's table go where (Spec), the definitions on both
// sides and the properties in which they must agree (Table), and the records by which a table is resumed. It refuses tables that could not be copied exactly,
// and changes nothing on either side.
package tabledef
