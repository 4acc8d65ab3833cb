// Options of the store.
#include "ws/config/config_key.h"
#include "ws/config/config_options.h"
#include "ws/config/config_values.h"

namespace ringside {
namespace {

using Kind = ConfigOption::Kind;

Status ApplyEncryptionKey(ServerConfig& config, const Values& values) {
  ASSIGN_OR_RETURN(config.encryption_key, ReadKey(values.back()));
  return Status::Ok();
}

}  // namespace

std::vector<ConfigOption> StorageSettings() {
  using C = ServerConfig;
  return {
      {"store-path",
       {},
       Kind::kValue,
       "PATH",
       "folder of the store, made with mode 0700 and locked against a second server [none: conversations end with the "
       "server]",
       Text(&C::store_path)},
      {"store-url",
       {},
       Kind::kValue,
       "URL",
       "PostgreSQL database with the conversations of several servers, as postgresql://ringside@one,two/ringside; "
       "password by PGPASSWORD or a passfile. The --store-path then holds caches only [a folder]",
       Text(&C::store_url)},
      {"server-name",
       {},
       Kind::kValue,
       "NAME",
       "this server's name among those of the --store-url, 1 to 64 characters; the same after a restart [the host's "
       "name and the port]",
       Text(&C::server_name)},
      {"lease-s",
       {},
       Kind::kValue,
       "SECONDS",
       "time without a word from this server after which others of the --store-url take over its conversations [10]",
       Integer(&C::lease_s, 1, 3600)},
      {"durability",
       {},
       Kind::kValue,
       "token|turn|none",
       "synced before it is sent: every token; every turn's end; nothing [token; turn with a --store-url; none "
       "without a store]",
       Choice<StoreDurability>(
           &C::durability,
           {{"token", StoreDurability::kToken}, {"turn", StoreDurability::kTurn}, {"none", StoreDurability::kNone}})},
      {"encryption-key-file",
       {},
       Kind::kValue,
       "PATH",
       "encrypt what is stored with this key: a file of mode 0400 or 0600 with 32 bytes, or 64 hexadecimal digits "
       "[not encrypted]",
       ApplyEncryptionKey},
      {"export-key-file",
       {},
       Kind::kValue,
       "PATH",
       "key that seals exported conversations, as above; created if absent. Servers that exchange conversations share "
       "it [export.key in the --store-path; one in the --store-url; or a new one at each start]",
       Text(&C::export_key_file)},
      {"accept-foreign-imports",
       {},
       Kind::kSwitch,
       "",
       "accept conversations that are sealed with another key; their content may be forged",
       Switch(&C::accept_foreign_imports)},
      {"backup-path",
       {},
       Kind::kValue,
       "PATH",
       "folder for backups, which `ringside backup` asks for; on the same file system as the --store-path they share "
       "its "
       "files [none: no backups]",
       Text(&C::backup_path)},
      {"verify", {}, Kind::kSwitch, "", "check every stored conversation before the start", Switch(&C::verify)},
      {"accept-lost-tail",
       {},
       Kind::kSwitch,
       "",
       "start although the end of the stored log is missing; make a copy of the folder first",
       Switch(&C::accept_lost_tail)},
      {"purge-interval",
       {},
       Kind::kValue,
       "SECONDS",
       "deleted bytes are off the disk within this time [3600]",
       Integer(&C::purge_interval_s, 1, 365 * 86400)},
  };
}

}  // namespace ringside
