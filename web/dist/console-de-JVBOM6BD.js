import{a as p,c as m,sa as o}from"./chunk-C224YXJA.js";m(p(o,null),document.getElementById("app"));
