// Package tabledef describes the tables of a copy: the selection of rows and columns and their destination
// ([Spec]), the definitions on both sides and the properties in which they must agree ([Table]), and the
// records by which a table is resumed.
//
// A Spec is a part of copier.Options. The flags of tare copy are parsed into specs:
//
//	specs, err := tabledef.ParseTables("shop.items,shop.orders=archive.orders")
//	err = tabledef.AddWhere(specs, "shop.orders: created > '2026-01-01'")
//
// [Describe] reads a table on both sides. It returns an error for tables that could not be copied exactly,
// and changes nothing on either side.
package tabledef
