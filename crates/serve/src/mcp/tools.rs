//! The tools: a table of their names, descriptions and schemas.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::arguments::{
    BestPrograms, Compare, Evaluate, ExplainBuild, ExplainRefusal, OfProblem, Problems, Roofline,
};
use super::builds::BuildExplained;
use super::results::{BestList, Compared, Evaluated, Explained, ProblemList, Roofed};
use crate::describe::Described;

/// The tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Evaluates a program.
    Evaluate,
    /// Evaluates several programs and ranks them.
    Compare,
    /// Explains the reason of a refusal.
    ExplainRefusal,
    /// Describes a problem.
    Problem,
    /// Lists the problems.
    Problems,
    /// Shows the fastest known programs.
    BestPrograms,
    /// Says how fast programs can be.
    Roofline,
    /// Explains the build of a program, or profiles a call.
    ExplainBuild,
}

/// A tool for clients.
struct About {
    tool: Tool,
    /// Its name in messages.
    name: &'static str,
    /// Its name for people.
    title: &'static str,
    description: &'static str,
    /// The schema of its arguments.
    arguments: fn() -> Schema,
    /// The schema of its result.
    result: fn() -> Schema,
    /// True if it only reads.
    only_reads: bool,
}

/// All tools, in the order of [`Tool`].
static TABLE: [About; 8] = [
    About {
        tool: Tool::Evaluate,
        name: "evaluate",
        title: "Evaluate a program",
        description: "Compiles, verifies and times one program: a kernel, or a module of PyTorch. The result has its speed relative to \
                      the plain reference, or of a module to the fastest of the baselines in its definition (`problem` names them in \
                      `compared_with`), with a 95 % interval, or the reason why it was refused. `rank` takes some seconds, \
                      `screen` less, `certify` up to a minute; the first program of a problem takes longer, because the reference is \
                      measured as well. Identical programs are evaluated once.",
        arguments: schema::<Evaluate>,
        result: schema::<Evaluated>,
        only_reads: false,
    },
    About {
        tool: Tool::Compare,
        name: "compare",
        title: "Compare programs",
        description: "Evaluates 2 to 16 programs for one problem and ranks them. Programs that share a letter in `group` cannot be \
                      told apart: none of them counts as faster.",
        arguments: schema::<Compare>,
        result: schema::<Compared>,
        only_reads: false,
    },
    About {
        tool: Tool::ExplainRefusal,
        name: "explain_refusal",
        title: "Explain a refusal",
        description: "Explains a `reason` of a result: what it means, who is at fault, and what to try. With a problem it adds what \
                      programs for the problem may use.",
        arguments: schema::<ExplainRefusal>,
        result: schema::<Explained>,
        only_reads: true,
    },
    About {
        tool: Tool::Problem,
        name: "problem",
        title: "Describe a problem",
        description: "Describes a problem: the function to write, its prototype, the sizes at which it is timed, what programs may \
                      use, and the task in words. Of a module it describes the class.",
        arguments: schema::<OfProblem>,
        result: schema::<Described>,
        only_reads: true,
    },
    About {
        tool: Tool::Problems,
        name: "problems",
        title: "List problems",
        description: "Lists the problems by name, with a title and the sizes at which each is timed.",
        arguments: schema::<Problems>,
        result: schema::<ProblemList>,
        only_reads: true,
    },
    About {
        tool: Tool::BestPrograms,
        name: "best_programs",
        title: "Show the fastest known programs",
        description: "Shows the fastest programs for a problem that this service has measured, ordered by the lower end of their \
                      intervals, with their sources. Programs of other machines or compilers are listed apart.",
        arguments: schema::<BestPrograms>,
        result: schema::<BestList>,
        only_reads: true,
    },
    About {
        tool: Tool::Roofline,
        name: "roofline",
        title: "Show the roofs of a problem",
        description: "Says how fast a program for the problem can be on this machine, by the roofline model: the roof at each size, \
                      the part of the machine that sets it, and the measured peak and bandwidths. With `gflops` it says which share \
                      of the roof that speed is.",
        arguments: schema::<Roofline>,
        result: schema::<Roofed>,
        // The roofline may have to be measured first.
        only_reads: false,
    },
    About {
        tool: Tool::ExplainBuild,
        name: "explain_build",
        title: "Explain a build, or profile a module",
        description: "Builds a kernel as `evaluate` does, without running it, and shows one of: the compiler's remarks on the loops \
                      that it vectorised or did not, the hot loop in assembly, or the static throughput of that loop by llvm-mca. \
                      Of a module it shows the `profile`: the operators in which a call spends its time, as the program's own process \
                      reports them. Counts as one evaluation; waits for the evaluation that is under way.",
        arguments: schema::<ExplainBuild>,
        result: schema::<BuildExplained>,
        only_reads: true,
    },
];

impl Tool {
    /// The names of all tools.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|about| about.name)
    }

    /// The tool of a name.
    pub fn named(name: &str) -> Option<Self> {
        let about = TABLE.iter().find(|about| about.name == name)?;
        Some(about.tool)
    }
}

fn schema<T: JsonSchema>() -> Schema {
    // Some clients do not follow references.
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

/// The tools as `tools/list` shows them.
pub fn list() -> &'static Value {
    static LIST: LazyLock<Value> = LazyLock::new(|| TABLE.iter().map(About::listed).collect());
    &LIST
}

impl About {
    fn listed(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": (self.arguments)(),
            "outputSchema": (self.result)(),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.only_reads,
                "destructiveHint": false,
                "idempotentHint": true,
                "openWorldHint": false,
            },
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::mcp::arguments::MOST_COMPARED;

    fn walk(value: &Value, see: &mut impl FnMut(&str, &Value)) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    see(key, inner);
                    walk(inner, see);
                }
            }
            Value::Array(all) => all.iter().for_each(|inner| walk(inner, see)),
            _ => {}
        }
    }

    #[test]
    fn every_tool_has_whole_schemas_of_objects() {
        let mut names = BTreeSet::new();
        for tool in list().as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name}");
            assert!(tool["description"].as_str().unwrap().len() > 40, "{name}");
            for kind in ["inputSchema", "outputSchema"] {
                assert_eq!(tool[kind]["type"], "object", "{name}: {kind}");
                let mut references = 0;
                walk(&tool[kind], &mut |key, _| {
                    references += i32::from(key == "$ref")
                });
                assert_eq!(references, 0, "{name}: {kind}");
            }
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
            let properties = tool["inputSchema"]["properties"].as_object().unwrap();
            for (argument, schema) in properties {
                assert!(schema["description"].is_string(), "{name}: {argument}");
            }
        }
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn the_ratio_of_a_module_is_that_to_its_fastest_baseline() {
        let evaluate = &list()[Tool::Evaluate as usize];
        let said = evaluate["description"].as_str().unwrap();
        assert!(said.contains("the fastest of the baselines"), "{said}");
        let mut ratios = Vec::new();
        walk(
            &evaluate["outputSchema"],
            &mut |key: &str, schema: &Value| {
                if key == "ratio" {
                    ratios.push(schema["description"].to_string());
                }
            },
        );
        assert!(!ratios.is_empty());
        for said in ratios {
            assert!(said.contains("fastest baseline"), "{said}");
        }
    }

    #[test]
    fn the_table_has_each_tool_once_and_in_order() {
        for (place, about) in TABLE.iter().enumerate() {
            assert_eq!(about.tool as usize, place, "{}", about.name);
            assert_eq!(Tool::named(about.name), Some(about.tool));
        }
        assert_eq!(Tool::named("evaluat"), None);
    }

    #[test]
    fn limits_of_the_schemas_are_those_of_the_calls() {
        let schema = serde_json::to_value(schema::<Compare>()).unwrap();
        assert_eq!(schema["properties"]["programs"]["maxItems"], MOST_COMPARED);
    }

    #[test]
    fn the_reference_page_lists_every_tool_and_argument() {
        let page = include_str!("../../../../docs/reference/mcp.md");
        for about in &TABLE {
            let schema = serde_json::to_value((about.arguments)()).unwrap();
            let row = format!("| `{}` |", about.name);
            assert!(page.contains(&row), "docs/reference/mcp.md lacks {row}");
            for argument in schema["properties"].as_object().unwrap().keys() {
                let named = format!("`{argument}`");
                assert!(page.contains(&named), "docs/reference/mcp.md lacks {named}");
            }
        }
    }
}
