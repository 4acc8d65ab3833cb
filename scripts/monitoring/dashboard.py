"""Writes the Grafana dashboard of a ringside-server: client-visible symptoms first, causes below.

    scripts/monitoring/dashboard.py > scripts/monitoring/ringside.dashboard.json

Import the file in Grafana under Dashboards, Import; it asks for the Prometheus that scrapes the server as the job
"ringside" and evaluates ringside.rules.yml. A panel consists of a title, a one-sentence description, a unit and
queries.
"""

import json

WIDTH, HEIGHT = 8, 8  # of a panel; a row is 24 wide
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
ONE = '{instance=~"$instance"}'
SOURCES = {"slot": "green", "host": "blue", "disk": "orange", "recomputed": "red"}


def rate(name, by=""):
    """The rate of a counter, summed over a server's series or by one label."""
    labels = ", ".join(["instance", by] if by else ["instance"])
    return f"sum by ({labels}) (rate({name}{ONE}[$__rate_interval]))"


def quantiles(name):
    return [(f"histogram_quantile({q}, sum by (instance, le) (rate({name}_bucket{ONE}[$__rate_interval])))", f"p{100 * q:g} {{{{instance}}}}")
            for q in (0.5, 0.95, 0.99)]


ROWS = {
    "Client experience": [
        ("Time to first token", "From the start of a turn to its first token.", "s", quantiles("ringside_time_to_first_token_seconds")),
        ("Between tokens", "Time between two tokens of an answer.", "s", quantiles("ringside_inter_token_latency_seconds")),
        ("Whole turns", "From the start of a turn to its end.", "s", quantiles("ringside_e2e_request_latency_seconds")),
        ("Turns ended", "By reason; errors are failures of the server.", "reqps",
         [(rate("ringside_request_success_total", "finished_reason"), "{{finished_reason}} {{instance}}")]),
        ("HTTP answers", "By status; 429 and 503 are refusals.", "reqps", [(rate("ringside_http_responses_total", "status"), "{{status}} {{instance}}")]),
        ("WebSockets", "Open now.", "short", [(f"ringside_ws_connections{ONE}", "{{instance}}")]),
    ],
    "Memory of conversations": [
        ("Where caches were found", "Turns that continued a conversation.", "reqps", [(rate("ringside_resumes_total", "source"), "{{source}} {{instance}}")]),
        ("Waiting for a cache", "95th percentile of the wait, by cache source. Recomputed: the whole prefill.", "s",
         [(f"ringside:session_restore_seconds:p95{ONE}", "{{source}} {{instance}}")]),
        ("Input found", "Share of input tokens that were not recomputed.", "percentunit",
         [(f"ringside:prompt_tokens_cached:ratio5m{ONE}", "{{instance}}")]),
        ("Saved caches", "Bytes in host memory and on disk.", "bytes", [(f"ringside_cache_bytes{ONE}", "{{tier}} {{instance}}")]),
        ("Caches spilled", "From slots to host memory, from host memory to disk.", "Bps",
         [(rate("ringside_cache_spill_bytes_total", "to"), "to {{to}} {{instance}}")]),
        ("Caches lost", "room: the tiers are too small; idle: unused for too long; damaged: disk errors.", "ops",
         [(rate("ringside_cache_lost_total", "reason"), "{{reason}} {{instance}}")]),
    ],
    "Engine": [
        ("Turns", "Turns in the batch, turns waiting for a slot, and all slots.", "short",
         [(f"ringside_num_requests_running{ONE}", "running {{instance}}"), (f"ringside_num_requests_waiting{ONE}", "waiting {{instance}}"),
          (f"ringside_slots{ONE}", "slots {{instance}}")]),
        ("Waiting for a slot", "From the start of a turn to its first step.", "s", quantiles("ringside_request_queue_time_seconds")),
        ("Predicted wait", "Of a turn after all queued ones.", "s", [(f"ringside_prompt_wait_seconds{ONE}", "{{instance}}")]),
        ("Turns refused", "Because of their predicted wait (--max-wait-s).", "reqps",
         [(rate("ringside_turns_refused_total", "reason"), "{{reason}} {{instance}}")]),
        ("Tokens", "Tokens read and written per second.", "short",
         [(rate("ringside_prompt_tokens_prefilled_total"), "read {{instance}}"), (rate("ringside_generation_tokens_total"), "written {{instance}}")]),
        ("Prefill", "From a turn's first step to its first token.", "s", quantiles("ringside_request_prefill_time_seconds")),
        ("Length of the input", "Input tokens per turn.", "short", quantiles("ringside_request_prompt_tokens")),
        ("Length of answers", "Tokens.", "short", quantiles("ringside_request_generation_tokens")),
    ],
    "Models": [
        ("Memory of models", "Weights and caches of the loaded models of --models-dir.", "bytes",
         [(f"ringside_model_memory_bytes{ONE} > 0", "{{model}} {{instance}}")]),
        ("Turns of models", "Turns in the engines of each model.", "short", [(f"ringside_model_requests_running{ONE}", "{{model}} {{instance}}")]),
        ("Waiting for a model", "Turns that wait until their model is loaded.", "short",
         [(f"ringside_model_requests_waiting{ONE}", "{{model}} {{instance}}")]),
        ("Swaps", "Loads and unloads per second.", "ops",
         [(rate("ringside_model_loads_total", "model"), "load {{model}} {{instance}}"),
          (rate("ringside_model_unloads_total", "model"), "unload {{model}} {{instance}}")]),
        ("Time for swaps", "Share of the time in which a model is being loaded or unloaded.", "percentunit",
         [(f"ringside:model_swap_seconds:ratio15m{ONE}", "{{instance}}")]),
        ("Failed loads", "", "ops", [(rate("ringside_model_load_failures_total", "model"), "{{model}} {{instance}}")]),
    ],
    "Store": [
        ("Sync of the journal", "Mean over five minutes; every token waits for one.", "s", [(f"ringside:journal_sync_seconds:mean5m{ONE}", "{{instance}}")]),
        ("Free space", "Of the store's disk.", "bytes", [(f"ringside_journal_free_bytes{ONE}", "{{instance}}")]),
        ("Conversations", "All conversations, and those in memory.", "short",
         [(f"ringside_sessions{ONE}", "kept {{instance}}"), (f"ringside_sessions_loaded{ONE}", "in memory {{instance}}")]),
        ("Damaged", "Unreadable conversations: investigate any value above 0.", "short", [(f"ringside_journal_damaged_sessions{ONE}", "{{instance}}")]),
        ("Refused by the journal", "Changes refused for lack of space.", "ops", [(rate("ringside_journal_refused_total"), "{{instance}}")]),
        ("Age of the newest backup", "", "s", [(f"time() - (ringside_backup_last_success_timestamp_seconds{ONE} > 0)", "{{instance}}")]),
    ],
    "Process": [
        ("Resident memory", "", "bytes", [(f'process_resident_memory_bytes{{job="ringside", instance=~"$instance"}}', "{{instance}}")]),
        ("Processor", "Cores in use.", "short", [(f'rate(process_cpu_seconds_total{{job="ringside", instance=~"$instance"}}[$__rate_interval])', "{{instance}}")]),
        ("Waiting for a worker", "Requests and messages.", "short", [(f"ringside_worker_queue_calls{ONE}", "{{instance}}")]),
    ],
}


def colours(title):
    """Gives each cache source the same colour in every panel."""
    if title not in ("Where caches were found", "Waiting for a cache"):
        return []
    return [{"matcher": {"id": "byRegexp", "options": f"/^{source} /"},
             "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}]} for source, colour in SOURCES.items()]


def panel(id, at, title, description, unit, queries):
    return {
        "id": id, "type": "timeseries", "title": title, "description": description, "datasource": SOURCE, "gridPos": at,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}}, "overrides": colours(title)},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "expr": expr, "legendFormat": legend, "datasource": SOURCE} for i, (expr, legend) in enumerate(queries)],
    }


def panels():
    out, y = [], 0
    for row, shown in ROWS.items():
        out.append({"id": len(out) + 1, "type": "row", "title": row, "collapsed": False, "panels": [], "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y += 1
        for i, description in enumerate(shown):
            at = {"x": i % 3 * WIDTH, "y": y + i // 3 * HEIGHT, "w": WIDTH, "h": HEIGHT}
            out.append(panel(len(out) + 1, at, *description))
        y += (len(shown) + 2) // 3 * HEIGHT
    return out


def dashboard():
    return {
        "uid": "ringside", "title": "Ringside", "tags": ["ringside"], "schemaVersion": 37, "editable": True, "timezone": "browser", "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            {"name": "instance", "label": "Server", "type": "query", "datasource": SOURCE, "query": "label_values(ringside_build_info, instance)",
             "refresh": 2, "multi": True, "includeAll": True},
        ]},
        "panels": panels(),
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
