// What the tests send to and read from HBase's Thrift2 service, for thriftpy2 as the independent encoder.

struct TColumn { 1: required binary family, 2: optional binary qualifier, 3: optional i64 timestamp }
struct TColumnValue {
  1: required binary family, 2: required binary qualifier, 3: required binary value,
  4: optional i64 timestamp, 5: optional binary tags, 6: optional byte type
}
struct TColumnIncrement { 1: required binary family, 2: required binary qualifier, 3: optional i64 amount = 1 }
struct TResult {
  1: optional binary row, 2: required list<TColumnValue> columnValues,
  3: optional bool stale = 0, 4: optional bool partial = 0
}
enum TDeleteType { DELETE_COLUMN = 0, DELETE_COLUMNS = 1, DELETE_FAMILY = 2, DELETE_FAMILY_VERSION = 3 }
enum TDurability { USE_DEFAULT = 0, SKIP_WAL = 1, ASYNC_WAL = 2, SYNC_WAL = 3, FSYNC_WAL = 4 }
enum TCompareOp {
  LESS = 0, LESS_OR_EQUAL = 1, EQUAL = 2, NOT_EQUAL = 3, GREATER_OR_EQUAL = 4, GREATER = 5, NO_OP = 6
}
struct TCellVisibility { 1: optional string expression }
struct TAuthorization { 1: optional list<string> labels }
struct TTimeRange { 1: required i64 minStamp, 2: required i64 maxStamp }
struct TGet {
  1: required binary row, 2: optional list<TColumn> columns, 3: optional i64 timestamp,
  4: optional TTimeRange timeRange, 5: optional i32 maxVersions, 6: optional binary filterString,
  7: optional map<binary, binary> attributes, 8: optional TAuthorization authorizations
}
struct TScan {
  1: optional binary startRow, 2: optional binary stopRow, 3: optional list<TColumn> columns,
  4: optional i32 caching, 5: optional i32 maxVersions = 1, 6: optional TTimeRange timeRange,
  7: optional binary filterString, 8: optional i32 batchSize,
  9: optional map<binary, binary> attributes, 10: optional TAuthorization authorizations,
  11: optional bool reversed, 12: optional bool cacheBlocks,
  13: optional map<binary, TTimeRange> colFamTimeRangeMap
}
struct TPut {
  1: required binary row, 2: required list<TColumnValue> columnValues, 3: optional i64 timestamp,
  5: optional map<binary, binary> attributes, 6: optional TDurability durability,
  7: optional TCellVisibility cellVisibility
}
struct TDelete {
  1: required binary row, 2: optional list<TColumn> columns, 3: optional i64 timestamp,
  4: optional TDeleteType deleteType = 1, 6: optional map<binary, binary> attributes,
  7: optional TDurability durability
}
struct TIncrement {
  1: required binary row, 2: required list<TColumnIncrement> columns,
  4: optional map<binary, binary> attributes, 5: optional TDurability durability,
  6: optional TCellVisibility cellVisibility, 7: optional bool returnResults
}
struct TAppend {
  1: required binary row, 2: required list<TColumnValue> columns,
  3: optional map<binary, binary> attributes, 4: optional TDurability durability,
  5: optional TCellVisibility cellVisibility, 6: optional bool returnResults
}
struct TMutation { 1: optional TPut put, 2: optional TDelete deleteSingle }
struct TRowMutations { 1: required binary row, 2: required list<TMutation> mutations }
struct TTableName { 1: optional binary ns, 2: required binary qualifier }
struct TColumnFamilyDescriptor {
  1: required binary name, 2: optional map<binary, binary> attributes,
  3: optional map<string, string> configuration, 10: optional i32 maxVersions
}
struct TTableDescriptor {
  1: required TTableName tableName, 2: optional list<TColumnFamilyDescriptor> columns,
  3: optional map<binary, binary> attributes, 4: optional TDurability durability
}
struct TNamespaceDescriptor { 1: required string name, 2: optional map<string, string> configuration }
struct TServerName { 1: required string hostName, 2: optional i32 port, 3: optional i64 startCode }

exception TIOError { 1: optional string message, 2: optional bool canRetry }

service THBaseService {
  bool exists(1: binary table, 2: TGet tget) throws (1: TIOError io),
  list<bool> existsAll(1: binary table, 2: list<TGet> tgets) throws (1: TIOError io),
  TResult get(1: binary table, 2: TGet tget) throws (1: TIOError io),
  list<TResult> getMultiple(1: binary table, 2: list<TGet> tgets) throws (1: TIOError io),
  i32 openScanner(1: binary table, 2: TScan tscan) throws (1: TIOError io),
  list<TResult> getScannerRows(1: i32 scannerId, 2: i32 numRows = 1) throws (1: TIOError io),
  list<TResult> getScannerResults(1: binary table, 2: TScan tscan, 3: i32 numRows = 1)
    throws (1: TIOError io),
  void getRegionLocation(1: binary table, 2: binary row, 3: bool reload) throws (1: TIOError io),
  void getAllRegionLocations(1: binary table) throws (1: TIOError io),
  void put(1: binary table, 2: TPut tput) throws (1: TIOError io),
  bool checkAndPut(1: binary table, 2: binary row, 3: binary family, 4: binary qualifier,
    5: binary value, 6: TPut tput) throws (1: TIOError io),
  void putMultiple(1: binary table, 2: list<TPut> tputs) throws (1: TIOError io),
  void deleteSingle(1: binary table, 2: TDelete tdelete) throws (1: TIOError io),
  list<TDelete> deleteMultiple(1: binary table, 2: list<TDelete> tdeletes) throws (1: TIOError io),
  bool checkAndDelete(1: binary table, 2: binary row, 3: binary family, 4: binary qualifier,
    5: binary value, 6: TDelete tdelete) throws (1: TIOError io),
  TResult increment(1: binary table, 2: TIncrement tincrement) throws (1: TIOError io),
  TResult append(1: binary table, 2: TAppend tappend) throws (1: TIOError io),
  void mutateRow(1: binary table, 2: TRowMutations trowMutations) throws (1: TIOError io),
  bool checkAndMutate(1: binary table, 2: binary row, 3: binary family, 4: binary qualifier,
    5: TCompareOp compareOp, 6: binary value, 7: TRowMutations rowMutations) throws (1: TIOError io),
  void createTable(1: TTableDescriptor desc, 2: list<binary> splitKeys) throws (1: TIOError io),
  void deleteTable(1: TTableName tableName) throws (1: TIOError io),
  void truncateTable(1: TTableName tableName, 2: bool preserveSplits) throws (1: TIOError io),
  void disableTable(1: TTableName tableName) throws (1: TIOError io),
  bool tableExists(1: TTableName tableName) throws (1: TIOError io),
  bool isTableEnabled(1: TTableName tableName) throws (1: TIOError io),
  bool isTableDisabled(1: TTableName tableName) throws (1: TIOError io),
  bool isTableAvailable(1: TTableName tableName) throws (1: TIOError io),
  bool isTableAvailableWithSplit(1: TTableName tableName, 2: list<binary> splitKeys)
    throws (1: TIOError io),
  void enableTable(1: TTableName tableName) throws (1: TIOError io),
  TTableDescriptor getTableDescriptor(1: TTableName table) throws (1: TIOError io),
  list<TTableDescriptor> getTableDescriptors(1: list<TTableName> tables) throws (1: TIOError io),
  list<TTableDescriptor> getTableDescriptorsByPattern(1: string regex, 2: bool includeSysTables)
    throws (1: TIOError io),
  list<TTableDescriptor> getTableDescriptorsByNamespace(1: string name) throws (1: TIOError io),
  list<TTableName> getTableNamesByPattern(1: string regex, 2: bool includeSysTables)
    throws (1: TIOError io),
  list<TTableName> getTableNamesByNamespace(1: string name) throws (1: TIOError io),
  void addColumnFamily(1: TTableName tableName, 2: TColumnFamilyDescriptor column)
    throws (1: TIOError io),
  void deleteColumnFamily(1: TTableName tableName, 2: binary column) throws (1: TIOError io),
  void modifyColumnFamily(1: TTableName tableName, 2: TColumnFamilyDescriptor column)
    throws (1: TIOError io),
  void modifyTable(1: TTableDescriptor desc) throws (1: TIOError io),
  void createNamespace(1: TNamespaceDescriptor namespaceDesc) throws (1: TIOError io),
  void modifyNamespace(1: TNamespaceDescriptor namespaceDesc) throws (1: TIOError io),
  void getSlowLogResponses(1: set<TServerName> serverNames) throws (1: TIOError io),
  void clearSlowLogResponses(1: set<TServerName> serverNames) throws (1: TIOError io),
  string getClusterId()
}
