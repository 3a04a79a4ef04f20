import{a as p,c as m,sa as o}from"./chunk-I5MSO2OJ.js";m(p(o,null),document.getElementById("app"));
