import{a as p,c as m,la as o}from"./chunk-6KQPK3XY.js";m(p(o,null),document.getElementById("app"));
