use super::*;
use crate::memory::SharedMemory;
use proptest::prelude::*;

fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![
        Just(Content::Uniform),
        (-1e9..1e9f64, -1e9..1e9f64).prop_map(|(low, high)| Content::Range { low, high }),
        (0usize..1000).prop_map(|columns| Content::Dominant { columns }),
        any::<u64>().prop_map(|total| Content::Offsets { total }),
        (0usize..1000, 0u32..32)
            .prop_map(|(columns, binades)| Content::Graded { columns, binades }),
        (0usize..1000, -9f64..9.0, -9f64..9.0, 0f64..9.0).prop_map(|(columns, low, high, by)| {
            Content::Shifted {
                columns,
                low,
                high,
                by,
            }
        }),
        (1f64..9.0, 1f64..9.0).prop_map(|(low, high)| Content::Magnitudes { low, high }),
        (-9f64..9.0, -9f64..9.0).prop_map(|(low, high)| Content::Steps { low, high }),
        (-9f64..9.0, -9f64..9.0).prop_map(|(low, high)| Content::Repeating { low, high }),
        (0usize..1000, 1f64..9.0).prop_map(|(columns, high)| Content::Distances { columns, high }),
    ]
}

fn any_argument() -> impl Strategy<Value = Argument> {
    let element = (0u64..7).prop_map(|number| Element::of(number).expect("one of seven"));
    prop_oneof![
        any::<i64>().prop_map(Argument::Int),
        any::<u64>().prop_map(Argument::Scalar),
        (
            element.clone(),
            0usize..1000,
            0usize..1000,
            any::<u64>(),
            any_content()
        )
            .prop_map(|(element, offset, count, stream, content)| {
                Argument::Input {
                    element,
                    offset: offset * 64,
                    count,
                    stream,
                    content,
                }
            }),
        (element, 0usize..1000, 0usize..1000).prop_map(|(element, offset, count)| {
            Argument::Output {
                element,
                offset: offset * 64,
                count,
            }
        }),
    ]
}

proptest! {
    #[test]
    fn a_plan_is_read_as_written(mut arguments in prop::collection::vec(any_argument(), 0..=MAX_ARGUMENTS)) {
        let mut scalars = 0;
        arguments.retain(|argument| {
            scalars += usize::from(matches!(argument, Argument::Scalar(_)));
            !matches!(argument, Argument::Scalar(_)) || scalars <= MAX_SCALARS
        });
        let memory = SharedMemory::create("control", CONTROL_BYTES).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let plan = Plan { arguments };
        let control = memory.mapping().control();
        control.set_plan(&plan);
        prop_assert_eq!(control.plan(1 << 20), Some(plan));
    }
}

#[test]
fn a_plan_beyond_the_buffers_is_refused() {
    let memory = SharedMemory::create("control", CONTROL_BYTES).expect("shared memory");
    let control = memory.mapping().control();
    for (offset, count) in [(0, 513), (4096 - 8, 2), (4, 1), (usize::MAX - 7, 1)] {
        control.set_plan(&Plan {
            arguments: vec![Argument::Output {
                element: Element::F64,
                offset,
                count,
            }],
        });
        assert_eq!(control.plan(4096), None, "offset {offset}, count {count}");
    }
}

#[test]
fn scalars_come_with_the_order_and_no_more_than_there_are_registers() {
    let memory = SharedMemory::create("control", CONTROL_BYTES).expect("shared memory");
    let control = memory.mapping().control();
    let plan = |scalars: u64| Plan {
        arguments: (0..scalars).map(Argument::Scalar).collect(),
    };
    control.set_plan(&plan(8));
    assert_eq!(control.scalars(), [0, 1, 2, 3, 4, 5, 6, 7]);
    let others = [9; MAX_SCALARS];
    control.set_scalars(&others);
    assert_eq!(control.scalars(), others);
    let read = control.plan(0).map(|plan| plan.scalars());
    assert_eq!(read, Some(others));
    control.set_plan(&plan(9));
    assert_eq!(control.plan(0), None);
}

#[test]
fn orders_and_messages_survive_the_crossing() {
    let memory = SharedMemory::create("control", CONTROL_BYTES).expect("shared memory");
    let control = memory.mapping().control();
    for (n, order) in [
        Order::Plan,
        Order::Prepare,
        Order::Call,
        Order::Park,
        Order::Exit,
        Order::Chill,
        Order::StandBy,
        Order::Fetch,
    ]
    .into_iter()
    .enumerate()
    {
        control.give(order.word(n as u64 + 1), 9);
        let (word, seed) = control.order();
        assert_eq!(
            (Order::of(word), word >> 8, seed),
            (Some(order), n as u64 + 1, 9)
        );
    }
    control.set_status(Status::LoadFailed, &"x".repeat(5000));
    assert_eq!(control.status(), Status::LoadFailed);
    assert_eq!(control.message(), "x".repeat(MESSAGE_BYTES - 1));
}
